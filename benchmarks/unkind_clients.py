"""Clients that a server of tubes has to bear: half-open, slow, greedy, and talking nonsense.

    python -m benchmarks.unkind_clients clients PORT [--count 500]
    python -m benchmarks.unkind_clients lines PORT [--lines N] [--seed N]

The first ones stay until the process is ended, and print ``ready`` once all are connected. The
second ones end with their lines. They run at a low priority: elsewhere they would be other hosts.
"""

import argparse
import asyncio
import os
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

NICE = 5
HALF_A_BODY = b"put 0 0 60 60000\r\n" + b"x" * 30_000
PAUSE_SECONDS = 1.0
ASKED_AT_ONCE = 200  # commands of a client that reads no answers
LINES_AT_ONCE = 100
LINES_EACH = 500  # of a connection; then it says no more, and hears all
FUZZERS = 64
TALK_SECONDS = 300.0  # in which the lines of a connection are answered
NOBODYS = b"00000000000000000000"  # also where some of it is lost
# What no other client is harmed by, for the tubes that are named are these clients' alone.
LINES = (
    *(b"put 0 0 60 5", b"put 0 0 1 0\r\n", b"put 1 2 3 4\r\nabcd", b"put 0 0"),
    *(b"use fuzzed", b"watch fuzzed", b"ignore fuzzed", b"ignore default", b"pause-tube fuzzed 1"),
    *(b"reserve-with-timeout 0", b"reserve-job " + NOBODYS, b"delete " + NOBODYS, b"kick 1"),
    *(b"release " + NOBODYS + b" 0 0", b"bury " + NOBODYS + b" 1", b"touch " + NOBODYS),
    *(b"kick-job " + NOBODYS, b"peek " + NOBODYS, b"peek-ready", b"peek-delayed", b"peek-buried"),
    *(b"stats-job " + NOBODYS, b"stats-tube fuzzed", b"list-tube-used", b"list-tubes-watched"),
    *(
        b"list-tubes",
        b"stats",
        b"",
        b"kick 18446744073709551615",
        b"put 4294967296 0 0 1",
        b" ",
        b"x" * 300,
        b"use " + b"y" * 200,
    ),
)
SIGNS = b" \r\n\0-x\xff\xc3"
KEPT_WHOLE = 0.01  # of the lines; the others get some bytes that are wrong
LAST_WORDS = b"", b"quit\r\nstats\r\n", b"put 0 0 60 5\r\nx", b"put 0 0 60 70000\r\nx", b"sta"

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def silent(_port: int, _streams: Streams) -> None:
    await asyncio.Event().wait()


async def one_byte_a_second(_port: int, streams: Streams) -> None:
    while True:
        streams[1].write(b"r")
        await asyncio.sleep(PAUSE_SECONDS)


async def puts_without_a_body(_port: int, streams: Streams) -> None:
    streams[1].write(b"put 0 0 60 65535\r\n")
    await asyncio.Event().wait()


async def reads_nothing(_port: int, streams: Streams) -> None:
    streams[1].transport.pause_reading()  # type: ignore[attr-defined]
    while True:
        streams[1].write(b"stats\r\npeek-ready\r\n" * ASKED_AT_ONCE)
        await streams[1].drain()


async def pipelines_nonsense(_port: int, streams: Streams) -> None:
    reader, writer = streams
    while True:
        writer.write(b"nonsense\r\nput x\r\n\xff\xff\0\r\n" * LINES_AT_ONCE)
        await writer.drain()
        await reader.read(65536)


async def closes_within_a_body(port: int, streams: Streams) -> None:
    while True:
        streams[1].write(HALF_A_BODY)
        await streams[1].drain()
        await asyncio.sleep(PAUSE_SECONDS)
        streams[1].close()
        streams = await asyncio.open_connection("127.0.0.1", port)


Kind: TypeAlias = Callable[[int, Streams], Coroutine[Any, Any, None]]
KINDS: tuple[Kind, ...] = (
    *(silent, one_byte_a_second, puts_without_a_body),
    *(reads_nothing, pipelines_nonsense, closes_within_a_body),
)


async def stay(port: int, kind: Kind, streams: Streams) -> None:
    """Where the server closes the connection, come again."""
    while True:
        with suppress(OSError):
            await kind(port, streams)
        await asyncio.sleep(PAUSE_SECONDS)
        with suppress(OSError):
            streams = await asyncio.open_connection("127.0.0.1", port)


async def clients(port: int, count: int) -> None:
    """So many, of all kinds in turn."""
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    all_of_them = [stay(port, KINDS[n % len(KINDS)], streams) for n, streams in enumerate(made)]
    print("ready", flush=True)
    await asyncio.gather(*all_of_them)


def fuzzed(chance: random.Random) -> bytes:
    """A line with its end, which it may have lost."""
    line = bytearray(chance.choice(LINES))
    if chance.random() > KEPT_WHOLE:
        for _ in range(chance.randint(1, 3)):
            position = chance.randint(0, len(line))
            line[position : position + chance.randint(0, 2)] = bytes([chance.choice(SIGNS)])
    return bytes(line) + b"\r\n"


async def say(port: int, lines: list[bytes]) -> None:
    """Say them in one go, then no more; hear all answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        writer.write(b"".join(lines))
        writer.write_eof()
        while await asyncio.wait_for(reader.read(65536), TALK_SECONDS):
            pass
    writer.close()


async def fuzz(port: int, lines: int, seed: int) -> None:
    left = lines
    chance = random.Random(seed)

    async def work() -> None:
        nonlocal left
        while left > 0:
            some = [fuzzed(chance) for _ in range(min(left, LINES_EACH))]
            left -= len(some)
            await say(port, [*some, chance.choice(LAST_WORDS)])

    await asyncio.gather(*(work() for _ in range(FUZZERS)))
    print(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["clients", "lines"])
    parser.add_argument("port", type=int)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    os.nice(NICE)
    if options.what == "clients":
        asyncio.run(clients(options.port, options.count))
    else:
        asyncio.run(fuzz(options.port, options.lines, options.seed))


if __name__ == "__main__":
    main()
