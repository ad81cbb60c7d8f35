"""Whether archive, prune and promote decay while a snapshot keeps every dead row."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

from benchmarks.contestants import ROOT, NoResult, end
from benchmarks.growth import READY
from benchmarks.growth.keeping_up import inside
from benchmarks.measures import END, Place

MODE = "empty, default"
JOBS = 100_000
LEAST, THIRD = 0.5, 3  # of the rate of the first three tenths for the last three
SETTLE = 1.0  # seconds, until the snapshot is held

Tenths = dict[str, list[float]]


def measure(place: Place, scale: float) -> bool:
    """Print the rates, tenth by tenth; whether none falls to half."""
    jobs, is_steady = max(10_000, round(JOBS * scale)), True
    for is_held in (False, True):
        with asked(place, jobs) as process, ExitStack() as stack:
            if is_held:
                stack.enter_context(inside(place, "hold"))
                time.sleep(SETTLE)
            found = answer(process)
        held = "a snapshot held" if is_held else "no snapshot"
        for name, tenths in found.items():
            unit = "ms" if name == "look" else "rows/s"
            print(f"{place.name}, {held}, {name}, {unit}: {' '.join(f'{t:,.1f}' for t in tenths)}")
            first, last = median(tenths[:THIRD]), median(tenths[-THIRD:])
            is_steady &= name == "look" or last >= LEAST * first
    return is_steady


@contextmanager
def asked(place: Place, jobs: int) -> Iterator["subprocess.Popen[str]"]:
    """A process that has made the rows, and waits for a line to begin."""
    command = [sys.executable, "-m", place.module, MODE, "rid", str(jobs)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=place.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != READY:
            raise NoResult("the rows were not made")
        yield process
    finally:
        end(process, END)  # type: ignore[arg-type]


def answer(process: "subprocess.Popen[str]") -> Tenths:
    said, _ = process.communicate("go\n")
    if process.returncode:
        raise NoResult(f"rid failed, with {process.returncode}")
    found: Tenths = json.loads(said.splitlines()[-1])
    return found
