"""From the commit of a job that is enqueued to the start of its run()."""

import time
from collections.abc import Iterator
from statistics import quantiles

from benchmarks.marks import SENT_VARIABLE, Marks
from benchmarks.measures import Figure, Place, wait_for

JOBS = {10: 300, 200: 2000}  # by the rate per second
IDLE, AFTER_IDLE = 60.0, 3  # seconds; how many times, one after the other
SETTLE = 3.0  # seconds
# Of p50 and p99 at 10 jobs/s, in milliseconds.
TARGETS = {"polling": (40, 200), "NOTIFY": (4, 10), "data_version": (6, 15)}


def measure(place: Place) -> Iterator[Figure]:
    for mode, how in modes(place.name):
        for rate, jobs in JOBS.items():
            found = latencies(place, mode, rate, jobs)
            yield from figures(place, f"pick-up, {how}, {rate} jobs/s", found, targets(how, rate))
        first = [latencies(place, mode, 1000, 1, IDLE)[0] for _ in range(AFTER_IDLE)]
        yield Figure(place.name, f"pick-up, {how}, first after {IDLE:g} s, worst", max(first), "ms")


def modes(place: str) -> list[tuple[str, str]]:
    if place == "postgresql":
        return [("default", "NOTIFY"), ("polling", "polling")]
    return [("default", "data_version" if place == "sqlite" else "polling")]


def targets(how: str, rate: int) -> tuple[float | None, float | None]:
    return TARGETS[how] if rate == min(JOBS) else (None, None)


def latencies(place: Place, mode: str, rate: int, jobs: int, idle: float = SETTLE) -> list[float]:
    """In milliseconds, of so many jobs a second, once the worker has been idle for a while."""
    place.ask(mode, "fill", 0)
    sent_path = place.folder / "sent"
    started, sent = place.new_marks(jobs), Marks.create(sent_path, jobs)
    with place.worker(mode):
        time.sleep(SETTLE + idle)
        place.ask(mode, "pace", rate, jobs, **{SENT_VARIABLE: str(sent_path)})
        wait_for(started, jobs)
    return [(started.time(n) - sent.time(n)) * 1000 for n in range(jobs)]


def figures(
    place: Place, name: str, found: list[float], goals: tuple[float | None, float | None]
) -> Iterator[Figure]:
    cuts = quantiles(found, n=100, method="inclusive")
    for percent, goal in ((50, goals[0]), (95, None), (99, goals[1])):
        yield Figure(place.name, f"{name}, p{percent}", cuts[percent - 1], "ms", at_most=goal)
