// Consumes a tube with jackd until it has been empty for a second, and puts each body, with a word
// in front, into another one. Usage: node jackd_client.js PORT FROM TO
const Jackd = require("jackd");

async function main() {
  const [port, from, to] = process.argv.slice(2);
  const client = new Jackd();
  await client.connect({ host: "127.0.0.1", port: Number(port) });
  await client.watch(from);
  await client.ignore("default");
  await client.use(to);
  for (;;) {
    let job;
    try {
      job = await client.reserveWithTimeout(1);
    } catch (error) {
      if (error.message !== "TIMED_OUT") throw error;
      break;
    }
    await client.put("node " + job.payload, { priority: 5, ttr: 60 });
    await client.delete(job.id);
  }
  await client.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
