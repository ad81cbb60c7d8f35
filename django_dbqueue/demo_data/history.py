"""A week of what might have happened in a queue, for the charts."""

import math
import random
from bisect import bisect_left
from collections.abc import Iterator

from ..fields import DbNow
from ..models import Minute, Queue
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
