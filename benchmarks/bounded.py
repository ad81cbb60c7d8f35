"""What enqueueing into a bounded queue costs against one without a limit, far from the limit.

    BENCH_DATABASE_URL=... python -m benchmarks.bounded [--turns 1000]

Both queues get a call in turn; printed is the ratio of the medians of what a call took.
"""

import argparse
import time
from collections.abc import Callable
from itertools import cycle, islice
from statistics import median
from typing import Any

from django.db import connection, transaction
from django.test import override_settings

from benchmarks.adapters.dbqueue import Adapter

BULK = 500  # rows of one call
SINGLE = 25  # jobs of one transaction
FAR = 10_000_000
MOST = 1.3
BOUNDED, FREE = "bounded", "default"


def ways(model: Any) -> dict[str, tuple[int, Callable[[str], Any]]]:
    """By name, how many turns one of it is worth, and what is done for a queue."""

    def in_transaction(queue: str) -> None:
        with transaction.atomic():
            for _ in range(SINGLE):
                model.objects.create(number=1, queue=queue)

    def bulk(queue: str) -> None:
        model.objects.bulk_create([model(number=1, queue=queue) for _ in range(BULK)])

    rows = [{"number": number} for number in range(BULK)]
    return {
        "create()": (1, lambda queue: model.objects.create(number=1, queue=queue)),
        f"{SINGLE} x create() in a transaction": (10, in_transaction),
        f"bulk_create() of {BULK}": (20, bulk),
        f"enqueue_many() of {BULK}": (
            20,
            lambda queue: model.objects.enqueue_many(rows, queue=queue),
        ),
    }


def measure(model: Any, turns: int) -> dict[str, dict[str, float]]:
    """By way and queue, the seconds that a call mostly took."""
    found: dict[str, dict[str, float]] = {}
    for name, (worth, enqueue) in ways(model).items():
        spent: dict[str, list[float]] = {BOUNDED: [], FREE: []}
        # Who comes second gains by the first one, or loses.
        for queue in islice(cycle((FREE, BOUNDED, BOUNDED, FREE)), 2 * max(20, turns // worth)):
            start = time.perf_counter()
            enqueue(queue)
            spent[queue].append(time.perf_counter() - start)
        found[name] = {queue: median(seconds[5:]) for queue, seconds in spent.items()}
        model._base_manager.all()._raw_delete("default")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=1000)
    options = parser.parse_args()
    adapter = Adapter("default")
    adapter.prepare()
    label = adapter.table._meta.label_lower
    bounded = {"QUEUES": {f"{label}:{BOUNDED}": {"max_length": FAR}}}
    with override_settings(DBQUEUE=bounded):
        for name, found in measure(adapter.table, options.turns).items():
            free, limited = found[FREE], found[BOUNDED]
            ratio = f"x {limited / free:.2f} (at most {MOST})"
            print(
                f"{connection.vendor}, {name}: {ratio}; {free * 1e6:.0f} and {limited * 1e6:.0f} µs"
            )


if __name__ == "__main__":
    main()
