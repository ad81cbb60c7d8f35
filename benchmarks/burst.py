"""A burst of jobs of 20 ms, by a worker that may grow and by two that may not.

    python scripts/servers.py run -- python -m benchmarks.burst [--only PLACE]... [--jobs 5000]

Each worker is idle, and small, when all jobs are enqueued at once. Prints, per database, how long
each took from that commit to the last job, how many children it had over time, and when the one
that grew was small again. Exits 1 if a job was lost or ran twice.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from benchmarks.contestants import NoResult
from benchmarks.drain import on_terminate, url
from benchmarks.measures import Place, wait_for
from benchmarks.processes import names

PLACES = ("sqlite", "mariadb", "postgresql")
MODES = {"naps, 1 process": 1, "naps, 4 processes": 4, "naps, 1-4 processes": 1}
CHILD = "dbqueue-child"  # in ps
SETTLE = 120.0  # seconds for a worker to start, and to shrink
LOOK = 0.2  # seconds


def burst(place: Place, mode: str, jobs: int) -> tuple[float, list[tuple[float, int]]]:
    """Seconds until all have run, and the number of children at each look, since the commit."""
    place.ask(mode, "empty")
    marks, looks = place.new_marks(jobs), list[tuple[float, int]]()
    with place.worker(mode) as session:
        for count in children(session):
            if count == MODES[mode]:
                break
        enqueued = place.ask(mode, "burst", jobs)
        for count in children(session):
            looks.append((time.monotonic() - enqueued, count))
            if marks.started == jobs and count <= MODES[mode]:
                break
        wait_for(marks, jobs)
    if marks.count(1) != jobs:
        raise NoResult(f"{marks.count(1)} of {jobs} jobs ran once")
    return max(marks.time(number) for number in range(jobs)) - enqueued, looks


def children(session: int) -> Iterator[int]:
    """How many a worker has, again and again."""
    deadline = time.monotonic() + SETTLE + 120
    while time.monotonic() < deadline:
        yield [*names(session).values()].count(CHILD)
        time.sleep(LOOK)
    raise NoResult(f"after {SETTLE:g} s the worker has not the size that it should have")


def steps(looks: list[tuple[float, int]]) -> str:
    """``1 from 0 s, 2 from 3.1 s``."""
    runs = [next(group) for _, group in groupby(looks, key=lambda look: look[1])]
    return ", ".join(f"{count} from {max(0.0, at):.1f} s" for at, count in runs)


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, on_terminate)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PLACES)
    parser.add_argument("--jobs", type=int, default=5000)
    options = parser.parse_args(argv)
    problems = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only or PLACES:
            place = Place(name, url(name, Path(folder)), Path(folder))
            place.ask(next(iter(MODES)), "prepare")
            for mode in MODES:
                try:
                    seconds, looks = burst(place, mode, options.jobs)
                except NoResult as problem:
                    problems += 1
                    print(f"{name:<11} {mode}: NO RESULT: {problem}")
                else:
                    print(f"{name:<11} {mode:<20} {seconds:6.1f} s; children: {steps(looks)}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
