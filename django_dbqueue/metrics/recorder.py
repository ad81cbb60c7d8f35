"""Adds up what this process does to jobs, and writes it into the table of minutes."""

import logging
import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import F
from django.db.utils import Error

from .. import events
from ..dialects import dialect_of
from ..lifecycle.claim_end import RetryDecision
from ..lifecycle.execute import in_transaction, retry
from ..lifecycle.failures import Failure
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table
from ..models import Minute
from ..models.minute import RAN, SPANS, SUMS, WAITED
from ..models.total import ALL, COUNTED, SECONDS
from ..worker import background
from . import failures, totals
from .additions import Addition, InDoubt

logger = logging.getLogger("django_dbqueue")

WRITE_SECONDS = 10.0  # between two writes
KINDS_MAX = 50  # of failures, that a process tells apart meanwhile
OF_MINUTES = frozenset((*SUMS, *WAITED, *RAN))
NO_KINDS: Mapping[Failure, int] = MappingProxyType({})
QueueKey = tuple[str, str, str]  # database alias, queue table, queue


@dataclass(slots=True)
class Counts:
    """What has happened in one queue since the last write."""

    completed: int = 0
    failed: int = 0
    buried: int = 0
    expired: int = 0
    reaped: int = 0
    lost: int = 0
    retried: int = 0
    waited_seconds: float = 0.0
    ran_seconds: float = 0.0
    waited: list[int] = field(default_factory=lambda: [0] * len(WAITED))
    ran: list[int] = field(default_factory=lambda: [0] * len(RAN))
    kinds: Counter[Failure] = field(default_factory=Counter)  # of the failed attempts

    def fail(self, failure: Failure | None, number: int = 1) -> None:
        has_room = len(self.kinds) < KINDS_MAX or failure in self.kinds
        self.kinds[failure if failure and has_room else failures.UNTOLD] += number

    def columns(self) -> dict[str, float]:
        """By column, what is to be added; nothing of what is 0."""
        sums = {name: getattr(self, name) for name in (*COUNTED, *SECONDS)}
        spans = zip((*WAITED, *RAN), (*self.waited, *self.ran), strict=True)
        return {name: count for name, count in (*sums.items(), *spans) if count}

    def add(self, other: "Counts") -> None:
        for name in (*COUNTED, *SECONDS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.waited = [a + b for a, b in zip(self.waited, other.waited, strict=True)]
        self.ran = [a + b for a, b in zip(self.ran, other.ran, strict=True)]
        for failure, number in other.kinds.items():
            self.fail(failure, number)


class Recorder:
    """What this process has done and not yet written; any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[QueueKey, Counts] = {}
        self._doubts: list[tuple[QueueKey, Counts, Addition]] = []
        self._due_at = 0.0

    def completed(self, table: Table, done: Sequence[tuple[Any, float]]) -> None:
        """Jobs, and the seconds that each ran."""
        with self._lock:
            for queue, times in events.seconds_by_queue(done).items():
                counts = self._of(table, queue)
                counts.completed += len(times)
                counts.ran_seconds += sum(times)
                for seconds in times:
                    counts.ran[bisect_left(SPANS, seconds)] += 1

    def failed(
        self, table: Table, queue: str, seconds: float | None, decision: RetryDecision
    ) -> None:
        """A failed attempt; ``seconds`` is None where nobody knows how long it ran."""
        with self._lock:
            counts = self._of(table, queue)
            counts.failed += 1
            counts.buried += decision.is_buried
            counts.fail(decision.failure)
            if seconds is not None:
                counts.ran_seconds += seconds
                counts.ran[bisect_left(SPANS, seconds)] += 1

    def waited(self, table: Table, queue: str, seconds: float) -> None:
        with self._lock:
            counts = self._of(table, queue)
            counts.waited_seconds += max(0.0, seconds)
            counts.waited[bisect_left(SPANS, seconds)] += 1

    def note(self, table: Table, queue: str, what: str) -> None:
        """One more that is ``expired``, ``reaped`` or ``lost``."""
        with self._lock:
            counts = self._of(table, queue)
            setattr(counts, what, getattr(counts, what) + 1)

    def retried(self, alias: str) -> None:
        """A statement on this database is run again."""
        with self._lock:
            self._at((alias, "", ALL)).retried += 1

    def _of(self, table: Table, queue: str) -> Counts:
        return self._at((table.connection.alias, table.job_table, queue))

    def _at(self, key: QueueKey) -> Counts:
        if key not in self._counts:
            if not self._counts:
                self._due_at = time.monotonic() + WRITE_SECONDS
            self._counts[key] = Counts()
        return self._counts[key]

    def due_in(self) -> float:
        """Seconds until it is to be written; a minute where there is nothing to write."""
        left = self._due_at - time.monotonic()
        return max(0.0, left) if self._counts or self._doubts else 60.0

    def write(self) -> None:
        """Add what there is to the database's present minute, on the calling thread's connections.

        What cannot be written is kept for another time, which is no reason to stop working.
        """
        self._due_at = time.monotonic() + WRITE_SECONDS
        self._settle()
        for key in list(self._counts):
            with self._lock:
                counts = self._counts.pop(key)
            try:
                add(key, counts.columns(), counts.kinds)
            except InDoubt as doubt:
                self._doubts.append((key, counts, doubt.addition))
                raise doubt.error from doubt
            except ValidationError:
                logger.debug("nothing is counted of %s: its name was written by hand", key)
            except Error as error:
                logger.debug("the minutes of %s cannot be written for now: %s", key, error)
                self._put_back(key, counts)
                if dialect_of(connections[key[0]]).error_kind(error):
                    raise

    def _put_back(self, key: QueueKey, counts: Counts) -> None:
        with self._lock:
            self._counts.setdefault(key, Counts()).add(counts)

    def _settle(self) -> None:
        """What was lost on the way to the database is to be written once more."""
        while self._doubts:
            key, counts, addition = self._doubts[0]
            has_arrived = addition.has_arrived()
            del self._doubts[0]
            if has_arrived is None:
                logger.warning("what was counted of %s is left out: it may be written already", key)
            elif not has_arrived:
                self._put_back(key, counts)


def this_minute(alias: str) -> int:
    """Minutes since 1970 UTC by the database's clock."""
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT {dialect_of(connections[alias]).minute}", [])
        return int(cursor.fetchone()[0])


def add(
    key: QueueKey, columns: Mapping[str, float], kinds: Mapping[Failure, int] = NO_KINDS
) -> None:
    """Add to columns of the present minute of a queue, and to its totals, and to the counts of the
    ``kinds`` of failures; any number of processes may.

    ``ValidationError`` where a hand has written a name that is none into the table; one that cannot
    be decoded is counted as it is shown.
    """
    alias, job_table, queue = key[0], key[1], str(key[2])
    minute = this_minute(alias)
    where = {"job_table": job_table, "queue": queue, "minute": minute}
    of_minute = {name: n for name, n in columns.items() if name in OF_MINUTES}
    rows = Minute.objects.using(alias).filter(**where)
    # Before the transaction, which then writes rows that are there: it locks no gap between them.
    if of_minute and not rows.exists():
        create = partial(Minute.objects.using(alias).bulk_create, ignore_conflicts=True)
        retry(connections[alias], partial(create, [Minute(**where)]))
    parts = failures.rows_of(alias, job_table, queue, minute, kinds)
    addition = totals.addition_to(alias, job_table, queue, minute)

    def write() -> None:
        if of_minute:
            rows.update(**{name: F(name) + count for name, count in of_minute.items()})
        for part, number in parts:
            part.update(failed=F("failed") + number)
        addition.write(minute, columns)

    with addition.doubted():
        in_transaction(connections[alias], write)


RECORDER = Recorder()


def subscribe() -> None:
    """From here on what happens to jobs is counted, and what children have counted is written."""
    events.completed.subscribe(RECORDER.completed)
    events.failed.subscribe(_failed)
    events.reaped.subscribe(_reaped)
    events.expired.subscribe(_expired)
    events.lost.subscribe(_lost)
    events.retried.subscribe(RECORDER.retried)
    if RECORDER not in background.WRITERS:
        background.WRITERS.append(RECORDER)


def _failed(
    table: Table, job: Any, _: Exception, seconds: float, decision: RetryDecision, __: str
) -> None:
    RECORDER.failed(table, job.queue, seconds, decision)


def _reaped(table: Table, reaped: list[Reaped]) -> None:
    for one in reaped:
        RECORDER.note(table, one.held.queue, "reaped")
        if one.error is not None:
            RECORDER.failed(table, one.held.queue, None, one.decision)


def _expired(table: Table, job: Any) -> None:
    RECORDER.note(table, job.queue, "expired")


def _lost(table: Table, job: Any, _: str, __: object) -> None:
    RECORDER.note(table, job.queue, "lost")


def _forget() -> None:
    """What a parent has not yet written is the parent's to write."""
    RECORDER.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_forget)
