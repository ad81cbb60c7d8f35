"""A thousand queues of three jobs each, served by one worker, next to one queue of as many."""

from collections.abc import Iterator
from statistics import median

from benchmarks.measures import Figure, Place
from benchmarks.measures.drained import Drained, drained

ROUNDS, JOBS = 3, 3000
LEAST = 1 / 3  # of one queue's rate
HOW = ("default", "best")


def measure(place: Place) -> Iterator[Figure]:
    for how in HOW:
        modes = {"one queue": how, "1,000 queues": f"{how}, many queues"}
        found: dict[str, list[Drained]] = {name: [] for name in modes}
        for _ in range(ROUNDS):
            for name, mode in modes.items():
                found[name].append(drained(place, mode, JOBS))
        for name, rounds in found.items():
            label = f"{JOBS} jobs, {how}, {name}"
            yield Figure(place.name, label, rate_of(rounds), "jobs/s")
            asked, used = (median(values) for values in zip(*map(costs, rounds), strict=True))
            yield Figure(place.name, f"{label}: statements", asked, "per job")
            yield Figure(place.name, f"{label}: CPU of the worker", used, "µs per job")
        one, many = map(rate_of, found.values())
        label = f"{JOBS} jobs, {how}, 1,000 queues : one queue"
        yield Figure(place.name, label, many / one, "x", at_least=LEAST)


def rate_of(rounds: list[Drained]) -> float:
    return median(one.rate for one in rounds)


def costs(one: Drained) -> tuple[float, float]:
    return one.statements, one.cpu
