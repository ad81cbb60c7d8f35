"""A week of what might have happened in a queue, for the charts, and a day of its failures."""

import math
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ..fields import DbNow
from ..lifecycle.errors import entries
from ..lifecycle.failures import Failure, failure_of
from ..lifecycle.table import Table
from ..metrics.failures import start_of
from ..models import FailureCount, FailureKind, Minute, Queue
from ..models.minute import FINE, KEPT, QUARTER, RAN, SPANS, WAITED

DAY = 24 * 60
OUTAGE = range(185, 200)  # minutes ago
DRAWS_MAX = 10  # for the times of one minute
CHUNK_ROWS = 500


def write_history(alias: str, job_table: str, queue: str) -> None:
    """Make up the minutes of the last week of a queue that has a row in ``Queue``; those that are
    there already stay as they are."""
    moments = Queue.objects.using(alias).values_list(DbNow(), flat=True)
    newest = int(moments.filter(job_table=job_table, name=queue)[0].timestamp()) // 60
    chance = random.Random(f"{job_table}:{queue}")
    rows = [
        Minute(job_table=job_table, queue=queue, minute=newest - ago, **columns)
        for ago, columns in _minutes(chance, newest)
    ]
    Minute.objects.using(alias).bulk_create(rows, batch_size=CHUNK_ROWS, ignore_conflicts=True)


def write_failures(table: Table, queue: str) -> None:
    """Share what failed in the minutes of the last day among the kinds of failures that the jobs of
    the queue have, the first of them most often."""
    alias, kinds = table.connection.alias, _kinds_in(table, queue)
    of_queue = Minute.objects.using(alias).filter(job_table=table.job_table, queue=queue)
    newest = of_queue.order_by("-minute").values_list("minute", flat=True).first()
    if newest is None or not kinds:
        return
    day = of_queue.filter(minute__gt=newest - DAY, failed__gt=0)
    chance = random.Random(f"{table.job_table}:{queue}")
    weights = [1 / (n + 1) for n in range(len(kinds))]
    found: Counter[tuple[int, str]] = Counter()
    for minute, failed in day.values_list("minute", "failed"):
        for kind in chance.choices(kinds, weights, k=failed):
            found[start_of(minute), kind.fingerprint] += 1
    its = {"job_table": table.job_table}
    FailureKind.objects.using(alias).bulk_create(
        [
            FailureKind(first_seen=newest - DAY, last_seen=newest, **its, **asdict(kind))
            for kind in kinds
        ],
        ignore_conflicts=True,
    )
    FailureCount.objects.using(alias).bulk_create(
        [
            FailureCount(minute=minute, queue=queue, fingerprint=name, failed=number, **its)
            for (minute, name), number in sorted(found.items())
        ],
        batch_size=CHUNK_ROWS,
        ignore_conflicts=True,
    )


def _kinds_in(table: Table, queue: str) -> Sequence[Failure]:
    """Of the failures of its jobs, in an order that is always the same."""
    jobs = table.model._default_manager.using(table.connection.alias)
    kinds = {}
    for job in jobs.filter(queue=queue, failure__isnull=False).only("failure", "errors"):
        told = failure_of(entries(job.errors)[-1])
        kinds[job.failure] = Failure(job.failure, told.exception, told.place, told.words)
    return [kinds[name] for name in sorted(kinds)]


def forget_failures(table: Table, queue: str) -> None:
    """What was counted of a queue, and the kinds of which nothing is left."""
    alias, job_table = table.connection.alias, table.job_table
    counts = FailureCount.objects.using(alias).filter(job_table=job_table)
    counts.filter(queue=queue).delete()
    jobs = table.model._default_manager.using(alias)
    for kind in FailureKind.objects.using(alias).filter(job_table=job_table):
        name = {"fingerprint": kind.fingerprint}
        if not (counts.filter(**name) or jobs.filter(failure=kind.fingerprint)[:1]):
            kind.delete()


def _minutes(chance: random.Random, newest: int) -> Iterator[tuple[int, dict[str, int]]]:
    """Busy by day, quiet by night, with an outage after which the work is made up for."""
    backlog = 0
    old = (ago for ago in range(FINE, KEPT - DAY) if (newest - ago) % QUARTER == 0)
    for ago in sorted({*range(FINE), *old}, reverse=True):
        hour = (newest - ago) % DAY / 60
        busy = 30 - 22 * math.cos(hour / 24 * 2 * math.pi)
        backlog += max(0, round(chance.gauss(busy, busy / 5)))
        failed = round(chance.expovariate(1 / (busy / 25)))
        is_out = ago in OUTAGE
        done = 0 if is_out else min(backlog, round(busy * 1.6))
        backlog -= done
        done *= 1 if ago < FINE else QUARTER
        slow = 30.0 if is_out or backlog > busy else 0.15
        yield (
            ago,
            {
                "completed": done,
                "failed": done and failed,
                "buried": int(done > 0 and chance.random() < 0.02),
                "backlog": backlog,
                **_spread(chance, WAITED, done, slow),
                **_spread(chance, RAN, done, 0.4),
            },
        )


def _spread(
    chance: random.Random, names: tuple[str, ...], count: int, seconds: float
) -> dict[str, int]:
    """So many times around so many seconds, by span."""
    found = dict.fromkeys(names, 0)
    draws = min(count, DRAWS_MAX)
    for draw in range(draws):
        time = chance.lognormvariate(math.log(seconds), 1)
        found[names[bisect_left(SPANS, time)]] += (count + draw) // draws
    return found
