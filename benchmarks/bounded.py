"""What enqueueing into a bounded queue costs against one without a limit, far from the limit.

    BENCH_DATABASE_URL=... python -m benchmarks.bounded [--rounds 9] [--jobs 500]

Each round enqueues into both in turn, by each way; printed is the median of the rounds' ratios.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from django.test import override_settings

BULK = 1000  # rows of one call
FAR = 10_000_000
MOST = 1.3


def ways(model: Any) -> dict[str, Callable[[int], None]]:
    from django.db import transaction

    def one_by_one(jobs: int) -> None:
        for number in range(jobs):
            model.objects.create(number=number)

    def in_transaction(jobs: int) -> None:
        with transaction.atomic():
            one_by_one(jobs)

    def bulk(jobs: int) -> None:
        for _ in range(0, 10 * jobs, BULK):
            model.objects.bulk_create([model(number=number) for number in range(BULK)])

    def many(jobs: int) -> None:
        for _ in range(0, 10 * jobs, BULK):
            model.objects.enqueue_many([{"number": number} for number in range(BULK)])

    return {
        "create()": one_by_one,
        "create() in one transaction": in_transaction,
        "bulk_create()": bulk,
        "enqueue_many()": many,
    }


def measure(model: Any, rounds: int, jobs: int) -> dict[str, list[tuple[float, float]]]:
    """By way, seconds without and with the limit of each round."""
    bounded = {"QUEUES": {model._meta.label_lower: {"max_length": FAR}}}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways(model)}
    for number in range(rounds + 1):
        for name, enqueue in ways(model).items():
            spent = {}
            for options in ({}, bounded) if number % 2 else (bounded, {}):
                with override_settings(DBQUEUE=options):
                    enqueue(10)  # the first one counts the queue
                    start = time.perf_counter()
                    enqueue(jobs)
                    spent[bool(options)] = time.perf_counter() - start
                model._base_manager.all()._raw_delete("default")
            if number:  # the first round only warms up
                found[name].append((spent[False], spent[True]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=500)
    options = parser.parse_args()
    from benchmarks.adapters.dbqueue import Adapter

    adapter = Adapter("default")
    adapter.prepare()
    from django.db import connection

    for name, rounds in measure(adapter.table, options.rounds, options.jobs).items():
        ratio = median(bounded / free for free, bounded in rounds)
        free, bounded = (min(one) * 1e6 / options.jobs for one in zip(*rounds, strict=True))
        print(
            f"{connection.vendor}, {name}: x {ratio:.2f} (at most {MOST}); "
            f"least {free:.0f} and {bounded:.0f} µs"
        )


if __name__ == "__main__":
    main()
