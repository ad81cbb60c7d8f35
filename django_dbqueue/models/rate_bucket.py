"""The tokens of rates, shared by all workers: one row for each bucket."""

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from django.db import connections, models

from ..dialects import dialect_of
from ..fields import NameField
from ..lifecycle import process_clock
from ..lifecycle.execute import changed, retry, rows
from ..lifecycle.rates import LATE_SHARE, Bucket, Rate

T = TypeVar("T")
TRIES_MAX = 50
LATE_SECONDS = 5.0  # what was asked for is used within these


@dataclass(frozen=True)
class ClockReading:
    """The database's time next to the monotonic clock, which was read before and after."""

    before: float
    now: float
    after: float

    def latest(self, at: float) -> float:
        """What the database's clock showed at most."""
        return self.now + at - self.before

    def earliest(self, time: float) -> float:
        """By the monotonic clock, when the database's may reach a time."""
        return self.before + time - self.now

    def surely(self, time: float) -> float:
        """By the monotonic clock, when the database's has reached a time."""
        return self.after + time - self.now


class RateBucketManager(models.Manager["RateBucket"]):
    def change(
        self,
        job_table: str,
        name: str,
        rates: list[Rate],
        work: Callable[[Bucket, ClockReading], T],
        burst: int | None = None,
    ) -> T | None:
        """Change a bucket by one conditional write of its row; None where others were faster again
        and again, and nothing was written. ``work`` may be called several times."""
        for _ in range(TRIES_MAX):
            key, version, stored, clock = self._read(job_table, name)
            bucket = Bucket(stored, rates, clock.now, burst)
            before = json.dumps(bucket.stored())
            result = work(bucket, clock)
            after = json.dumps(bucket.stored())
            if after == before or self._write(key, version, after):
                return result
        return None

    def take(self, job_table: str, name: str, rates: list[Rate], count: int) -> float:
        """Use tokens now, without a lease: seconds until they may be there, 0 = they were."""

        def use(bucket: Bucket, clock: ClockReading) -> float:
            offer = bucket.offer(count, 0.0, need=count)
            if not offer.times:
                return offer.wait
            shortest = min(rate.seconds for rate in rates)
            bucket.note_used(clock.now + min(LATE_SECONDS, shortest * LATE_SHARE), count)
            return 0.0

        if not rates:
            return 0.0
        wait = self.change(job_table, name, rates, use)
        return random.uniform(0.1, 1) if wait is None else wait

    def peek(self, job_table: str, name: str, rates: Iterable[Rate]) -> Bucket:
        """A bucket as it is now, which is not written."""
        found = self._find(job_table, name)
        return Bucket(loaded(found[2]), rates, found[3]) if found else Bucket({}, rates, 0.0)

    @property
    def _connection(self) -> Any:
        return connections[self.db]

    def _read(self, job_table: str, name: str) -> tuple[int, int, Any, ClockReading]:
        before = process_clock.monotonic()
        found = self._find(job_table, name)
        if found is None:
            row = self.model(job_table=job_table, name=name)
            make = partial(self.bulk_create, [row], ignore_conflicts=True)
            retry(self._connection, make)
            before = process_clock.monotonic()
            found = self._find(job_table, name)
            assert found is not None, "it was made just now"
        key, version, stored, now = found
        return key, version, loaded(stored), ClockReading(before, now, process_clock.monotonic())

    def _find(self, job_table: str, name: str) -> tuple[int, int, str, float] | None:
        # Often asked, and building a query costs more than the query.
        connection, meta = self._connection, self.model._meta
        quote = connection.ops.quote_name
        columns = f"id, version, state, {_now(connection)}"
        table, named = quote(meta.db_table), dialect_of(connection).placeholder(name)
        sql = f"SELECT {columns} FROM {table} WHERE job_table = %s AND name = {named}"
        for key, version, state, now in rows(connection, sql, [job_table, name]):
            return key, version, state, float(now)
        return None

    def _write(self, key: int, version: int, state: str) -> bool:
        connection = self._connection
        table = connection.ops.quote_name(self.model._meta.db_table)
        sql = f"UPDATE {table} SET state = %s, version = %s WHERE id = %s AND version = %s"
        return changed(connection, sql, [state, version + 1, key, version]) == 1


def _now(connection: Any) -> str:
    """SQL for the seconds since 1970."""
    dialect = dialect_of(connection)
    return f"-{dialect.seconds_until(dialect.instant_literal.format('1970-01-01 00:00:00'))}"


def loaded(state: str) -> Any:
    """What a row holds, as JSON."""
    try:
        return json.loads(state)
    except ValueError:
        return {}  # a hand wrote it


class RateBucket(models.Model):
    """What of one bucket's tokens is out, as ``lifecycle.rates`` reads it."""

    job_table = models.CharField(max_length=200)
    name = NameField()
    state = models.TextField(default="{}", editable=False)
    version = models.BigIntegerField(default=0, editable=False)

    objects = RateBucketManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job_table", "name"], name="dbqueue_bucket_of_table")
        ]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.job_table}:{self.name}"
