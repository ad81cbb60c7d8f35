"""Queued mail next to django-post_office: queueing, and sending to a local server.

    python scripts/servers.py run -- python -m benchmarks.mail [--only PLACE]... [--rounds N]
        [--messages N]

A server on the same machine that takes a message at once is the hardest case for us, who commit
each outcome before the next message; one that takes 20 ms for each is more like a real one.

Prints a Markdown table and writes it and the figures to benchmarks/results/. Exits 1 if any measure
had no result: a message that did not arrive, or one that came twice.
"""

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.adapters import URL_VARIABLE
from benchmarks.contestants import ROOT, NoResult
from benchmarks.drain import RESULTS, say, url

PLACES = ("mariadb", "postgresql", "sqlite")
PEER, OURS = "post_office", "ours"
# (what, ours, the peer's)
QUEUEING = (
    ("queue 1 list", (OURS, "1", "as_list"), (PEER, "1", "by_backend")),
    ("queue 1 list, its send_many()", (OURS, "1", "as_list"), (PEER, "1", "as_list")),
    ("queue one by one", (OURS, "1", "one_by_one"), (PEER, "1", "one_by_one")),
)
SENDING = (
    ("send, 1 thread", (OURS, "1", "send"), (PEER, "1", "send")),
    ("send, 4 threads", (OURS, "4", "send"), (PEER, "4", "send")),
    ("send, 4 threads; its defaults (5)", (OURS, "4", "send"), (PEER, "default", "send")),
    ("send, 2 processes of 4 threads", (OURS, "2x4", "send"), (PEER, "2x4", "send")),
    ("send to a slow server, 1 thread", (OURS, "1", "send_slowly"), (PEER, "1", "send_slowly")),
    ("send to a slow server, 4 threads", (OURS, "4", "send_slowly"), (PEER, "4", "send_slowly")),
)
MEASURES = QUEUEING + SENDING
# That the server takes for a message.
MILLISECONDS = {"send": 0, "send_slowly": 20}
Call = tuple[str, str, str]


class Sink:
    """The server's process, as the measuring one talks to it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, word: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port)) as line, line.makefile("rw") as io:
            io.readline()
            io.write(f"{word}\r\n")
            io.flush()
            return io.readline()

    def counted(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.ask("XSTAT"))
        return facts


@contextmanager
def sink() -> Iterator[Sink]:
    command = [sys.executable, "-m", "benchmarks.mail_sink"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Sink(int(process.stdout.readline()))
        finally:
            process.terminate()


def python_of(name: str) -> str:
    if name == OURS:
        return sys.executable
    return str(ROOT / os.environ.get("BENCH_PEERS", ".venv-peers") / PEER / "bin" / "python")


def ask(env: dict[str, str], call: Call, *counts: int) -> float:
    name, mode, verb = call
    command = [python_of(name), "-m", "benchmarks.mail_inside", f"{name}:{mode}", verb]
    done = subprocess.run(
        [*command, *map(str, counts)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NoResult(f"{call} failed:\n{done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1] or "0") or 0)


def rate(env: dict[str, str], server: Sink, call: Call, count: int) -> float:
    """Messages per second: queued, or sent and their outcome committed."""
    name, mode, verb = call
    if verb not in MILLISECONDS:
        return count / ask(env, call, count)
    server.ask(f"XRESET {MILLISECONDS[verb]}")
    end = ask(env, (name, mode, "send"), count)
    seen = server.counted()
    if not count == seen["messages"] == seen["distinct"]:
        raise NoResult(f"{call}: {seen['messages']} of {count} came, {seen['distinct']} distinct")
    return count / (end - float(seen["first"]))


def measure(place: str, options: argparse.Namespace, folder: Path, server: Sink) -> dict[Call, Any]:
    env = {**os.environ, URL_VARIABLE: url(place, folder), "BENCH_SINK_PORT": str(server.port)}
    calls = list(dict.fromkeys(call for _, *pair in MEASURES for call in pair))
    rates: dict[Call, list[float]] = {call: [] for call in calls}
    for name in (OURS, PEER):
        ask(env, (name, "1", "prepare"))
    for number in range(options.rounds):
        for call in calls:
            rates[call].append(rate(env, server, call, options.messages))
            say(f"{place} {number + 1}/{options.rounds}  {call}: {rates[call][-1]:,.0f} messages/s")
    return rates


def row(place: str, what: str, ours: list[float], peers: list[float]) -> str:
    mine, its = median(ours), median(peers)
    return f"| {place} | {what} | {mine:,.0f} | {its:,.0f} | {mine / its:.1f} |"


def table(found: dict[str, dict[Call, list[float]]], options: argparse.Namespace) -> str:
    head = ["| | | ours, messages/s | django-post_office | ratio |", "|---|---|---:|---:|---:|"]
    rows = [
        row(place, what, rates[ours], rates[peer])
        for place, rates in found.items()
        for what, ours, peer in MEASURES
    ]
    conditions = (
        f"Medians of {options.rounds} rounds in turn, {options.messages} messages each; Python "
        f"{platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}."
    )
    return "\n".join([*head, *rows, "", conditions])


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PLACES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=1000)
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    options = parse(argv)
    found: dict[str, dict[Call, list[float]]] = {}
    problems = 0
    with tempfile.TemporaryDirectory() as folder, sink() as server:
        for place in options.only or PLACES:
            try:
                found[place] = measure(place, options, Path(folder), server)
            except NoResult as problem:
                problems += 1
                say(f"{place}: NO RESULT: {problem}")
    page = table(found, options)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "mail.md").write_text(page + "\n")
    print(page)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
