"""A thousand tasks that wait for a second each: coroutines, threads, and Oban's, in turn.

    python scripts/servers.py run --postgresql -- python -m benchmarks.tasks_waiting [--rounds N]
        [--jobs N]

On PostgreSQL, one worker of each. From the first start to the last committed completion; memory is
what all processes of the worker have together, at most, what they share counted once. Exits 1 if
any had no result.
"""

import argparse
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.contestants import POSTGRESQL, ROOT, Contestant, NoResult
from benchmarks.drain import say, url
from benchmarks.measure import drain, environment

LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Waiting(Contestant):
    """``peer``: in whose environment it runs."""

    peer: str

    @property
    def python(self) -> str:
        folder = ROOT / os.environ.get("BENCH_PEERS", ".venv-peers")
        return str(folder / f"newest-{self.peer}" / "bin" / "python")


CONTESTANTS = (
    Waiting("--coroutines 1000", "coroutines", "dbqueue_waiting", POSTGRESQL, 0, "dbqueue_tasks"),
    Waiting("--threads 50", "threads", "dbqueue_waiting", POSTGRESQL, 0, "dbqueue_tasks"),
    Waiting("Oban, default:1000", "coroutines", "oban_waiting", POSTGRESQL, 0, "oban"),
)


@dataclass
class Memory:
    """The most that a worker's processes had, in MiB: their proportional set sizes."""

    most: float = 0.0
    worker: str = ""
    end: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.end.wait(LOOK_SECONDS):
            self.most = max(self.most, sum(self.sizes()))

    def sizes(self) -> Iterator[float]:
        sessions: dict[str, list[float]] = {}
        workers = set[str]()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                session = (process / "stat").read_text().rpartition(")")[2].split()[3]
                memory = (process / "smaps_rollup").read_text()
                words = (process / "cmdline").read_bytes().split(b"\0")
                kib = int(memory.partition("\nPss:")[2].split()[0])
            except (OSError, IndexError):
                continue  # it has ended
            sessions.setdefault(session, []).append(kib / 1024)
            if session == process.name and self.worker.encode() in words and b"work" in words:
                workers.add(session)
        return (size for session in workers for size in sessions[session])


@contextmanager
def watched(one: Waiting) -> Iterator[Memory]:
    memory = Memory(worker=one.adapter)
    thread = threading.Thread(target=memory.watch)
    thread.start()
    try:
        yield memory
    finally:
        memory.end.set()
        thread.join()


def play(one: Waiting, jobs: int, address: str, folder: Path) -> tuple[float, float]:
    with watched(one) as memory:
        per_second = drain(one, address, jobs, 1, folder)
    return jobs / per_second, memory.most


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1000)
    options = parser.parse_args(argv)
    found: dict[str, list[tuple[float, float]]] = {one.name: [] for one in CONTESTANTS}
    has_failed = False
    with tempfile.TemporaryDirectory(prefix="dbqueue-bench-") as name:
        folder = Path(name)
        address = url("postgresql", folder)
        for number in range(options.rounds):
            for one in CONTESTANTS:
                try:
                    one.ask(environment(address, folder / "marks"), "prepare")
                    found[one.name].append(play(one, options.jobs, address, folder))
                except NoResult as problem:
                    has_failed = True
                    say(f"{one.name}: NO RESULT: {problem}")
                else:
                    seconds, memory = found[one.name][-1]
                    say(f"round {number + 1}  {one.name}: {seconds:.1f} s, {memory:.0f} MiB")
    print(f"| {options.jobs:,} tasks that wait 1 s | seconds | MiB, all processes |")
    print("|---|---:|---:|")
    for name, rounds in found.items():
        if rounds:
            seconds, memory = (median(values) for values in zip(*rounds, strict=True))
            print(f"| `{name}` | {seconds:.1f} | {memory:.0f} |")
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
