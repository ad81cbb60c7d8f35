"""pgqueuer, on PostgreSQL with asyncpg, which its documentation puts first."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, TypeVar

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.adapters import BULK, NAP_SECONDS, URL_VARIABLE, Timeless
from benchmarks.marks import mark, random_pauses, sent

BEST = {"batch_size": 250}
MODES: dict[str, dict[str, Any]] = {"default": {}, "best": BEST, "naps": BEST}
T = TypeVar("T")


class Adapter(Timeless):
    """It deletes a job when it is done. Completions are buffered, up to 0.1 s or a batch."""

    def __init__(self, mode: str) -> None:
        self.options = MODES[mode]
        self.job = nap if mode == "naps" else noop

    def prepare(self) -> None:
        async def install(connection: Any) -> None:
            queries = Queries(AsyncpgDriver(connection))
            if not await queries.schema_is_installed():
                await queries.install()

        connected(install)

    def fill(self, jobs: int) -> None:
        async def enqueue(connection: Any) -> None:
            await connection.execute("TRUNCATE pgqueuer, pgqueuer_log")
            queries = Queries(AsyncpgDriver(connection))
            for start in range(0, jobs, BULK):
                numbers = range(start, min(start + BULK, jobs))
                payloads = [str(number).encode() for number in numbers]
                await queries.enqueue(["noop"] * len(numbers), payloads, [0] * len(numbers))
            await connection.execute("ANALYZE pgqueuer")

        connected(enqueue)

    def pace(self, rate: float, jobs: int) -> None:
        async def enqueue(connection: Any) -> None:
            queries, committed = Queries(AsyncpgDriver(connection)), sent()
            for number, seconds in enumerate(random_pauses(rate, jobs)):
                await asyncio.sleep(seconds)
                await queries.enqueue("noop", str(number).encode())
                committed.add(number)

        connected(enqueue)

    def work(self) -> None:
        async def run(connection: Any) -> None:
            queuer = PgQueuer.from_asyncpg_connection(connection)
            queuer.entrypoint("noop")(self.job)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
            await queuer.run(**self.options)

        connected(run)

    def left(self) -> int:
        async def count(connection: Any) -> int:
            return int(await connection.fetchval("SELECT count(*) FROM pgqueuer"))

        return connected(count)

    def versions(self) -> dict[str, str]:
        async def server(connection: Any) -> str:
            return str(await connection.fetchval("SHOW server_version"))

        found = {"PostgreSQL": connected(server)}
        return found | {name: version(name) for name in ("pgqueuer", "asyncpg", "uvloop")}


async def noop(job: Job) -> None:
    mark(int(job.payload))


async def nap(job: Job) -> None:
    mark(int(job.payload))
    await asyncio.sleep(NAP_SECONDS)


def connected(work: Callable[[Any], Awaitable[T]]) -> T:
    """Run it with a connection, in the loop that its own command would use."""

    async def run() -> T:
        connection = await asyncpg.connect(os.environ[URL_VARIABLE])
        try:
            return await work(connection)
        finally:
            await connection.close()

    found: T = uvloop.run(run())
    return found
