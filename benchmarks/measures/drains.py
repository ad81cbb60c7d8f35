"""The drain by two processes, next to that by one."""

from collections.abc import Iterator
from statistics import median

from benchmarks.measure import drain
from benchmarks.measures import Figure, Place, ours

ROUNDS, JOBS = 3, 20_000
# The mode, its number of workers, the mode that it is compared with, and the least ratio by place.
VARIANTS: tuple[tuple[str, int, str, dict[str, float]], ...] = (
    ("best, two processes", 1, "best", {"postgresql": 1.3, "mariadb": 0.85, "sqlite": 0.85}),
    ("best, two queues", 2, "best", {"mariadb": 1.5}),
    ("default, two processes", 1, "default", {}),
)


def measure(place: Place) -> Iterator[Figure]:
    workers = {"best": 1, "default": 1} | {mode: count for mode, count, _, _ in VARIANTS}
    rates: dict[str, list[float]] = {mode: [] for mode in workers}
    for mode in workers:
        # The one table serves all of them; each begins by emptying it in its own way.
        ours(mode).ask(place.env, "prepare")
    for _ in range(ROUNDS):
        for mode, count in workers.items():
            rates[mode].append(drain(ours(mode), place.url, JOBS, count, place.folder))
    for mode, found in rates.items():
        yield Figure(place.name, f"drain, {mode}", median(found), "jobs/s")
    for mode, _, other, least in VARIANTS:
        ratio = median(rates[mode]) / median(rates[other])
        name = f"drain, {mode} : {other}"
        yield Figure(place.name, name, ratio, "x", at_least=least.get(place.name))
