"""Rows that are inserted one by one and in bulk, next to a plain model and bare SQL."""

from collections.abc import Iterator
from statistics import median

from benchmarks.measures import Figure, Place

ROUNDS, JOBS = 7, 2000


def measure(place: Place) -> Iterator[Figure]:
    found = place.ask("default", "enqueue", ROUNDS, JOBS)
    costs = {way: median(values) for way, values in found.items()}
    names = {
        "ours": "create()",
        "plain": "create() of a plain model",
        "bulk": "bulk_create()",
        "many": "enqueue_many()",
        "bare": "bare multi-row INSERT",
    }
    for way, name in names.items():
        yield Figure(place.name, f"enqueue, {name}", 1e6 / costs[way], "rows/s")
    single = median(a / b for a, b in zip(found["ours"], found["plain"], strict=True))
    yield Figure(place.name, "create(): time against a plain model's", single, "x", at_most=1.5)
    for way, least in (("many", 0.5), ("bulk", None)):
        ratio = median(a / b for a, b in zip(found["bare"], found[way], strict=True))
        name = f"{names[way]}: rate against bare SQL's"
        yield Figure(place.name, name, ratio, "x", at_least=least)
