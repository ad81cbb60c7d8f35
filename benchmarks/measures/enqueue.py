"""Rows that are inserted one by one and in bulk, next to a plain model and bare SQL."""

from collections.abc import Iterator
from statistics import median

from benchmarks.measures import Figure, Place

ROUNDS, JOBS = 7, 2000
OTHERS = {"bare": "bare SQL's", "copy": "COPY's"}
# The way, what it is compared with, and the least ratio.
TARGETS = (
    ("many", "bare", 0.5),
    ("many", "copy", 0.5),
    ("made", "bare", 0.4),
    ("bulk", "bare", None),
)


def measure(place: Place) -> Iterator[Figure]:
    found = place.ask("default", "enqueue", ROUNDS, JOBS)
    costs = {way: median(values) for way, values in found.items()}
    names = {
        "ours": "create()",
        "plain": "create() of a plain model",
        "bulk": "bulk_create()",
        "made": "bulk_create() of instances that are there",
        "many": "enqueue_many()",
        "bare": "bare multi-row INSERT",
        "copy": "COPY",
        "silent": "create() without NOTIFY",
        "rare": "create() each 6 ms",
        "rare silent": "create() each 6 ms without NOTIFY",
    }
    for way, name in names.items():
        if way not in costs:
            continue
        yield Figure(place.name, f"enqueue, {name}", 1e6 / costs[way], "rows/s")
    single = median(a / b for a, b in zip(found["ours"], found["plain"], strict=True))
    yield Figure(place.name, "create(): time against a plain model's", single, "x", at_most=1.5)
    for way, without in (("ours", "silent"), ("rare", "rare silent")):
        if without in found:
            ratio = median(a / b for a, b in zip(found[way], found[without], strict=True))
            yield Figure(place.name, f"{names[way]}: time with NOTIFY against without", ratio, "x")
    for way, other, least in TARGETS:
        if other in found:
            ratio = median(a / b for a, b in zip(found[other], found[way], strict=True))
            name = f"{names[way]}: rate against {OTHERS[other]}"
            yield Figure(place.name, name, ratio, "x", at_least=least)
