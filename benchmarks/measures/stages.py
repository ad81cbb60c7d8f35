"""Client CPU per no-op job in one thread, by stage: what is left when nothing else is in the way.

The least of several rounds, since other programs on the machine only ever add to it.
"""

from collections.abc import Iterator

from benchmarks.measures import Figure, Place

JOBS, ROUNDS = 10_000, 7
TARGETS = {"mariadb": 12, "postgresql": 12, "sqlite": 25}


def measure(place: Place) -> Iterator[Figure]:
    place.new_marks(JOBS)
    found = place.ask("best", "stages", JOBS, ROUNDS)
    for stage, cost in found.items():
        yield Figure(place.name, f"CPU per job in one thread, {stage}", cost, "µs")
    most = TARGETS.get(place.name)
    yield Figure(place.name, "CPU per job in one thread", sum(found.values()), "µs", at_most=most)
