"""CPU time of a worker per no-op job, and its memory over many of them."""

import time
from collections.abc import Iterator

from benchmarks.contestants import NoResult
from benchmarks.marks import Marks
from benchmarks.measures import Figure, Place, wait_for
from benchmarks.processes import cpu_seconds, resident

JOBS, FIRST = 100_000, 20_000
TARGETS = {"mariadb": 12, "postgresql": 11, "sqlite": 18}


def measure(place: Place) -> Iterator[Figure]:
    place.ask("best", "fill", JOBS)
    marks = place.new_marks(JOBS)
    with place.worker("best") as pid:
        wait_for(marks, FIRST)
        begun = state(pid, marks)
        wait_for(marks, JOBS)
        time.sleep(1.0)  # the last outcomes are written
        ended = state(pid, marks)
    if marks.count(1) != JOBS:
        raise NoResult(f"{marks.count(1)} of {JOBS} jobs ran once")
    (cpu, memory, started), (cpu_later, memory_later, started_later) = begun, ended
    jobs = started_later - started
    cost = (cpu_later - cpu) / jobs * 1e6
    most = TARGETS.get(place.name)
    yield Figure(place.name, "CPU of a worker per no-op job, best", cost, "µs", at_most=most)
    yield Figure(place.name, "largest process after them", memory_later, "MiB", at_most=60)
    slope = (memory_later - memory) / jobs * 10_000
    yield Figure(place.name, "memory per 10,000 jobs", slope, "MiB", at_most=0.5)


def state(pid: int, marks: Marks) -> tuple[float, float, int]:
    return sum(cpu_seconds(pid).values()), max(resident(pid).values()), marks.started
