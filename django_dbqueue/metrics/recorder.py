"""Adds up what this process does to jobs, and writes it into the table of minutes."""

import logging
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import F, Q
from django.db.utils import Error

from .. import events
from ..dialects import dialect_of
from ..fields import check_name
from ..lifecycle.claim_end import RetryDecision
from ..lifecycle.execute import retry
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table
from ..models import Minute
from ..models.minute import RAN, SPANS, SUMS, WAITED
from ..worker import background

logger = logging.getLogger("django_dbqueue")

EVERY = 10.0  # seconds between two writes
Lane = tuple[str, str, str]  # database alias, queue table, queue


@dataclass(slots=True)
class Counts:
    """What has happened in one queue since the last write."""

    completed: int = 0
    failed: int = 0
    buried: int = 0
    waited: list[int] = field(default_factory=lambda: [0] * len(WAITED))
    ran: list[int] = field(default_factory=lambda: [0] * len(RAN))

    def columns(self) -> dict[str, int]:
        sums = {"completed": self.completed, "failed": self.failed, "buried": self.buried}
        spans = zip((*WAITED, *RAN), (*self.waited, *self.ran), strict=True)
        return {name: count for name, count in (*sums.items(), *spans) if count}


class Recorder:
    """What this process has done and not yet written; any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes: dict[Lane, Counts] = {}
        self._due_at = 0.0

    def completed(self, table: Table, done: Sequence[tuple[Any, float]]) -> None:
        """Jobs, and the seconds that each ran."""
        with self._lock:
            for job, seconds in done:
                counts = self._of(table, job.queue)
                counts.completed += 1
                counts.ran[bisect_left(SPANS, seconds)] += 1

    def failed(self, table: Table, queue: str, seconds: float | None, is_buried: bool) -> None:
        """A failed attempt; ``seconds`` is None where nobody knows how long it ran."""
        with self._lock:
            counts = self._of(table, queue)
            counts.failed += 1
            counts.buried += is_buried
            if seconds is not None:
                counts.ran[bisect_left(SPANS, seconds)] += 1

    def waited(self, table: Table, queue: str, seconds: float) -> None:
        with self._lock:
            self._of(table, queue).waited[bisect_left(SPANS, seconds)] += 1

    def _of(self, table: Table, queue: str) -> Counts:
        lane = table.connection.alias, table.job_table, queue
        if lane not in self._lanes:
            if not self._lanes:
                self._due_at = time.monotonic() + EVERY
            self._lanes[lane] = Counts()
        return self._lanes[lane]

    def due_in(self) -> float:
        """Seconds until it is to be written; a minute where there is nothing to write."""
        return max(0.0, self._due_at - time.monotonic()) if self._lanes else 60.0

    def write(self) -> None:
        """Add what there is to the database's present minute, on the calling thread's connections.

        What cannot be written is kept for another time; it is no reason to stop working.
        """
        self._due_at = time.monotonic() + EVERY
        for lane in list(self._lanes):
            with self._lock:
                counts = self._lanes.pop(lane)
            try:
                add(lane, counts.columns())
            except ValidationError:
                logger.debug("nothing is counted of %s: its name was written by hand", lane)
            except Error as error:
                logger.debug("the minutes of %s cannot be written for now: %s", lane, error)
                self._put_back(lane, counts)
                if dialect_of(connections[lane[0]]).error_kind(error):
                    raise

    def _put_back(self, lane: Lane, counts: Counts) -> None:
        with self._lock:
            newer = self._lanes.setdefault(lane, Counts())
            newer.completed += counts.completed
            newer.failed += counts.failed
            newer.buried += counts.buried
            newer.waited = _added(newer.waited, counts.waited)
            newer.ran = _added(newer.ran, counts.ran)


def _added(one: Iterable[int], other: Iterable[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def this_minute(alias: str) -> int:
    """Minutes since 1970 UTC by the database's clock."""
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT {dialect_of(connections[alias]).minute}", [])
        return int(cursor.fetchone()[0])


def add(lane: Lane, columns: dict[str, int]) -> None:
    """Add to columns of the present minute of a queue; any number of processes may.

    ``ValidationError`` where a hand has written a name that is none into the table; one that cannot
    be decoded is counted as it is shown.
    """
    alias, job_table, queue = lane
    where = {"job_table": job_table, "queue": str(queue), "minute": this_minute(alias)}
    rows = Minute.objects.using(alias).filter(**where)
    plus = {name: F(name) + count for name, count in columns.items()}
    if not retry(connections[alias], partial(rows.update, **plus)):
        fresh = partial(Minute.objects.using(alias).bulk_create, ignore_conflicts=True)
        retry(connections[alias], partial(fresh, [Minute(**where)]))
        retry(connections[alias], partial(rows.update, **plus))


def is_sampled(alias: str, job_table: str) -> bool:
    """Whether somebody has counted a table's backlog in this minute, or had no queue to count."""
    rows = Minute.objects.using(alias).filter(minute=this_minute(alias), job_table=job_table)
    return rows.filter(backlog__isnull=False).exists()


def write_backlog(alias: str, job_table: str, backlogs: dict[str, int | None]) -> None:
    """Note how many jobs of each queue are neither done nor buried; None = too many to count."""
    minute, rows = this_minute(alias), Minute.objects.using(alias)
    named = {str(queue): backlog for queue, backlog in backlogs.items() if _is_name(queue)}
    fresh = [Minute(job_table=job_table, queue=queue, minute=minute) for queue in named]
    rows.bulk_create(fresh, ignore_conflicts=True)
    for queue, backlog in named.items():
        rows.filter(job_table=job_table, queue=queue, minute=minute).update(backlog=backlog)


def _is_name(queue: str) -> bool:
    """A hand may have written anything into the table."""
    try:
        check_name(queue, "queue")
    except ValidationError:
        return False
    return True


def busy_lately(alias: str, job_table: str) -> set[str]:
    """The queues of a table in which something happened, or waited, in the last hour; that somebody
    looked and found nothing is neither."""
    rows = Minute.objects.using(alias).filter(job_table=job_table)
    busy = Q(*((f"{name}__gt", 0) for name in (*SUMS, "backlog")), _connector=Q.OR)
    lately = rows.filter(busy, minute__gt=this_minute(alias) - 60)
    return set(lately.values_list("queue", flat=True).distinct())


RECORDER = Recorder()


def subscribe() -> None:
    """From here on what happens to jobs is counted, and what children have counted is written."""
    events.completed.subscribe(RECORDER.completed)
    events.failed.subscribe(_failed)
    events.reaped.subscribe(_reaped)
    if RECORDER not in background.IN_CHILDREN:
        background.IN_CHILDREN.append(RECORDER)


def _failed(
    table: Table, job: Any, _: Exception, seconds: float, decision: RetryDecision, __: str
) -> None:
    RECORDER.failed(table, job.queue, seconds, decision.is_buried)


def _reaped(table: Table, reaped: list[Reaped]) -> None:
    for one in reaped:
        if one.error is not None:
            RECORDER.failed(table, one.held.queue, None, one.decision.is_buried)


def _forget() -> None:
    """What a parent has not yet written is the parent's to write."""
    RECORDER.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_forget)
