"""What a worker costs that has nothing to do."""

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.adapters import TRACE_VARIABLE
from benchmarks.measures import Figure, Place
from benchmarks.processes import cpu_seconds, resident

SETTLE, LOOK = 15.0, 60.0  # seconds
PRAGMA = "PRAGMA data_version"


def measure(place: Place) -> Iterator[Figure]:
    for mode in ["default", "polling"] if place.name == "postgresql" else ["default"]:
        yield from cost(place, mode)


def cost(place: Place, mode: str) -> Iterator[Figure]:
    place.ask(mode, "fill", 0)
    place.new_marks(1)
    trace = place.folder / "trace"
    trace.unlink(missing_ok=True)
    with place.worker(mode, {TRACE_VARIABLE: str(trace)} if place.name == "sqlite" else {}) as pid:
        time.sleep(SETTLE)
        before, cpu, began = statements(place, trace), cpu_seconds(pid), time.monotonic()
        time.sleep(LOOK)
        count, seconds = statements(place, trace) - before, time.monotonic() - began
        used = [100 * (later - cpu[one]) / seconds for one, later in cpu_seconds(pid).items()]
        memory = resident(pid)
    name = f"idle, {mode}"
    yield Figure(place.name, f"{name}: statements", count / seconds, "per s", at_most=6)
    yield Figure(place.name, f"{name}: CPU, each process", max(used), "% of a core", at_most=0.3)
    yield Figure(place.name, f"{name}: CPU, supervisor and child", sum(used), "% of a core")
    yield Figure(
        place.name, f"{name}: its largest process", max(memory.values()), "MiB", at_most=60
    )


def statements(place: Place, trace: Path) -> int:
    """So far; on SQLite without the question whether others have committed, which is no more than
    a look at shared memory."""
    if place.name == "sqlite":
        lines = trace.read_text().splitlines()
        return sum(line != PRAGMA for line in lines)
    return int(place.ask("default", "statements"))
