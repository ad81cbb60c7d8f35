"""One queue, drained by 1 to 16 workers."""

from collections.abc import Iterator
from statistics import median

from benchmarks.measures import Figure, Place
from benchmarks.measures.drained import Drained, drained

ROUNDS, JOBS = 3, 240_000
WORKERS = (1, 2, 4, 8, 16)
LEAST = 0.9  # of one worker's rate


def measure(place: Place) -> Iterator[Figure]:
    found: dict[int, list[Drained]] = {workers: [] for workers in WORKERS}
    for _ in range(ROUNDS):
        for workers, rounds in found.items():
            rounds.append(drained(place, "best", JOBS, workers))
    rates = {workers: median(one.rate for one in rounds) for workers, rounds in found.items()}
    for workers, rounds in found.items():
        label = f"drain by {workers} worker{'s' * (workers > 1)}, best"
        yield Figure(place.name, label, rates[workers], "jobs/s")
        asked = median(one.statements for one in rounds)
        yield Figure(place.name, f"{label}: statements", asked, "per job")
        used = median(one.cpu for one in rounds)
        yield Figure(place.name, f"{label}: CPU of the workers", used, "µs per job")
        if served := median(one.server for one in rounds):
            yield Figure(place.name, f"{label}: CPU of the server", served, "µs per job")
            cores = median(one.rate * (one.cpu + one.server) / 1e6 for one in rounds)
            yield Figure(place.name, f"{label}: cores in use", cores, "cores")
        if workers > 1:
            ratio = rates[workers] / rates[1]
            yield Figure(place.name, f"{label} : by one", ratio, "x", at_least=LEAST)
