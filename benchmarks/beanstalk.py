"""Clients of runbeanstalkd next to those of beanstalkd itself: cycles of put, reserve and delete.

    python scripts/servers.py run -- python -m benchmarks.beanstalk [--only PLACE]... [--seconds N]

beanstalkd runs twice: with its jobs in memory alone, and with a log that it syncs before it answers
(``-b FOLDER -f 0``), which is what a database does. Each connection has a tube of its own.

Prints a Markdown table, with the ratio to the second.
"""

import argparse
import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.contestants import ROOT, NoResult
from benchmarks.drain import say, url

PLACES = ("mariadb", "postgresql", "sqlite")
CONNECTIONS = (1, 10, 100)
START_SECONDS = 60.0
LISTENING = re.compile(r"listening on 127\.0\.0\.1:(\d+)")


async def cycles(port: int, number: int, end: float) -> int:
    """How many one connection has done until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask(command: bytes) -> list[bytes]:
        writer.write(command + b"\r\n")
        return (await reader.readuntil(b"\r\n")).split()

    for command in (b"use t%d" % number, b"watch t%d" % number, b"ignore default"):
        await ask(command)
    done = 0
    while time.monotonic() < end:
        await ask(b"put 0 0 60 20\r\n01234567890123456789")
        _, key, size = await ask(b"reserve")
        await reader.readexactly(int(size) + 2)
        if await ask(b"delete " + key) != [b"DELETED"]:
            raise NoResult("a job that was reserved could not be deleted")
        done += 1
    writer.close()
    return done


async def rate(port: int, connections: int, seconds: float) -> float:
    """Cycles in a second."""
    began = time.monotonic()
    each = [cycles(port, number, began + seconds) for number in range(connections)]
    return sum(await asyncio.gather(*each)) / (time.monotonic() - began)


@contextmanager
def running(command: Sequence[str], **environment: str) -> Iterator[tuple[int, Path]]:
    """A process that is gone afterwards; its id, and the file of what it says."""
    with tempfile.NamedTemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | environment, stdout=log, stderr=log
        )
        try:
            yield process.pid, Path(log.name)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


@contextmanager
def beanstalkd(*options: str) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with running(["beanstalkd", "-l", "127.0.0.1", "-p", str(port), *options]):
        wait_for(lambda: port if accepts(port) else None)
        yield port


@contextmanager
def ours(place: str, folder: str, *options: str) -> Iterator[tuple[int, int]]:
    """The process' id, and its port."""
    environment = {"DATABASE_URL": url(place, Path(folder)), "DBQUEUE_TESTS": "1", "DEBUG": "0"}
    command = [sys.executable, "manage.py"]
    subprocess.run(
        [*command, "migrate", "-v0", "--run-syncdb"],
        cwd=ROOT,
        env=os.environ | environment,
        check=True,
    )
    listen = ["runbeanstalkd", "--listen", "127.0.0.1:0", *options]
    with running([*command, *listen], **environment) as (pid, log):
        yield pid, wait_for(lambda: port_in(log.read_text()))


def port_in(text: str) -> int | None:
    found = LISTENING.search(text)
    return int(found[1]) if found else None


def accepts(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def wait_for(find: Callable[[], int | None]) -> int:
    end = time.monotonic() + START_SECONDS
    while (port := find()) is None:
        if time.monotonic() > end:
            raise NoResult("a server does not listen")
        time.sleep(0.05)
    return port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PLACES)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        log = Path(folder) / "log"
        log.mkdir()
        ports = {
            "beanstalkd": stack.enter_context(beanstalkd()),
            "beanstalkd, synced": stack.enter_context(beanstalkd("-b", str(log), "-f", "0")),
        }
        for place in options.only or PLACES:
            _, ports[place] = stack.enter_context(ours(place, folder))
        for name, port in ports.items():
            found = [asyncio.run(rate(port, count, options.seconds)) for count in CONNECTIONS]
            rates[name] = found
            say(f"{name}: {', '.join(f'{one:,.0f}' for one in found)}")
    print(table(rates))


def table(rates: dict[str, list[float]]) -> str:
    """Cycles in a second; in brackets, of what the synced one does."""
    synced = rates["beanstalkd, synced"]
    lines = [f"| | {' | '.join(map(str, CONNECTIONS))} connections |", "|---|---|---|---|"]
    for name, found in rates.items():
        cells = [f"{one:,.0f} ({one / base:.2f})" for one, base in zip(found, synced, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
