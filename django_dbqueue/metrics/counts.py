"""Counting jobs without ever counting all of a large table."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from typing import Any

from ..lifecycle.backlog import heads_by_priority
from ..lifecycle.execute import placeholders, rows
from ..lifecycle.keys import HAS_KEY, PARKED
from ..lifecycle.table import Table
from ..models.failure import KINDS_MAX
from ..states import HELD, PROMOTABLE, Status

PRIORITIES_MAX = 100  # whose first job is looked at
QUEUES_MAX = 100  # of a table, that are told apart
FAILED_MAX = 20_000  # jobs with a failure that are counted together
KIND_MAX = 1_000  # of one kind, where there are more
RETRYING = "SUM(CASE WHEN failed_at IS NULL THEN 1 ELSE 0 END)"
BURIED_UNTIL = "SUM(CASE WHEN failed_at <= %s THEN 1 ELSE 0 END)"
ENDED_WITHIN = 10  # seconds, by any worker that lives
MOVING = (Status.CLAIMED, Status.DELAYED)


def count_by_queue(table: Table, status: Status, most: int) -> dict[str, int]:
    """The jobs in a state by queue; where the sum is over ``most``, there are more, and the count
    of each is that of some of them."""
    # A partial index holds only rows that move by themselves, or are buried. Elsewhere the index
    # that begins with the status and the queue knows all that is asked. In the order of an index no
    # database believes that it finds as many sooner by reading the table from its beginning.
    moves, order = "", "queue"
    if table.connection.features.supports_partial_indexes and status in MOVING:
        moves, order = " AND retry_at IS NOT NULL", "retry_at"
    elif table.connection.features.supports_partial_indexes and status == Status.BURIED:
        order = table.pk
    sql = (
        f"SELECT queue, COUNT(*) FROM (SELECT queue FROM {table.name} WHERE status = {status:d}"
        f"{moves} ORDER BY {order} LIMIT {most + 1}) AS capped GROUP BY queue"
    )
    found = Counter({str(queue): int(count) for queue, count in rows(table.connection, sql, [])})
    if moves and status == Status.DELAYED and table.takes_keys:
        found.update(_parked_by_queue(table, most))
    return dict(found)


def _parked_by_queue(table: Table, most: int) -> dict[str, int]:
    """The jobs that wait for their concurrency keys, which no index over times holds."""
    sql = (
        f"SELECT queue, COUNT(*) FROM (SELECT queue FROM {table.name} WHERE {PARKED} "
        f"AND {HAS_KEY} ORDER BY concurrency_key LIMIT {most + 1}) AS capped GROUP BY queue"
    )
    return {str(queue): int(count) for queue, count in rows(table.connection, sql, [])}


def due_by_queue(table: Table, most: int) -> dict[str, int]:
    """The delayed jobs whose time has come, by queue; where the sum is over ``most``, there are
    more, and the count of each is that of some of them."""
    is_due = table.dialect.is_past("retry_at")
    sql = (
        f"SELECT queue, COUNT(*) FROM (SELECT queue FROM {table.name} WHERE {PROMOTABLE} "
        f"AND retry_at IS NOT NULL AND {is_due} ORDER BY retry_at LIMIT {most + 1}) AS capped "
        "GROUP BY queue"
    )
    return {str(queue): int(count) for queue, count in rows(table.connection, sql, [])}


def abandoned_by_queue(table: Table, most: int) -> dict[str, int]:
    """The claims whose time was over some seconds ago, by queue, as far as so many are looked at:
    nobody ends them."""
    is_over = table.dialect.is_past("retry_at", str(ENDED_WITHIN))
    sql = (
        f"SELECT queue, COUNT(*) FROM (SELECT queue FROM {table.name} WHERE {HELD} "
        f"AND retry_at IS NOT NULL AND {is_over} ORDER BY retry_at LIMIT {most}) AS capped "
        "GROUP BY queue"
    )
    return {str(queue): int(count) for queue, count in rows(table.connection, sql, [])}


@dataclass(frozen=True)
class Failed:
    """The jobs of a table with one failure: those that are buried, and those that are tried again;
    with ``is_at_least`` there may be more of either, and 0 is what nobody knows."""

    buried: int = 0
    retrying: int = 0
    is_at_least: bool = False

    @property
    def number(self) -> int:
        return self.buried + self.retrying


UNKNOWN = Failed(is_at_least=True)


@dataclass(frozen=True)
class FailedKinds:
    """By the fingerprints of their failures, jobs that are here; ``shown`` are 200 kinds at most,
    and with ``has_more`` others are here, too. What is not counted is not here if ``is_whole``."""

    counted: dict[str, Failed]
    shown: list[str]
    has_more: bool
    is_whole: bool

    def of(self, kind: str) -> Failed:
        return self.counted.get(kind, Failed() if self.is_whole else UNKNOWN)


def failed_by_kind(
    table: Table, until: Any, queues: Sequence[str] = (), lately: Sequence[str] = ()
) -> FailedKinds:
    """The jobs that are here by kind, without those that were buried after ``until``, which is as
    the database has it; of the kinds that failed ``lately``, and of others with most jobs.

    Exact where there are no more than 20,000 of any queue; else also up to 1,000 of each of 200
    kinds, first of which come those of ``lately``.
    """
    counted, is_whole = ({}, False) if queues else _count_together(table, until)
    names: list[str] = []
    if not is_whole:
        found = [*lately, *islice(_kinds(table, next(reversed(counted), "")), KINDS_MAX + 1)]
        names = [kind for kind in dict.fromkeys(found) if kind not in counted]
    for kind in names[:KINDS_MAX]:
        counted[kind] = count_kind(table, kind, until, KIND_MAX, queues)
    here = {kind: one.number for kind, one in counted.items() if one != Failed()}
    shown = [kind for kind in lately if kind in here]
    others = nlargest(KINDS_MAX - len(shown), here.keys() - set(shown), key=here.__getitem__)
    shown += others
    has_more = len(names) > KINDS_MAX or len(here) > len(shown)
    return FailedKinds(counted, shown, has_more, is_whole)


def _count_together(table: Table, until: Any) -> tuple[dict[str, Failed], bool]:
    """The kinds of the first 20,000 jobs by fingerprint, in that order; and whether these are
    all. Else the last one of them may have others."""
    sql = (
        f"SELECT failure, {BURIED_UNTIL}, {RETRYING}, COUNT(*) FROM (SELECT failure, failed_at "
        f"FROM {table.name} WHERE failure IS NOT NULL ORDER BY failure LIMIT {FAILED_MAX + 1}) "
        "AS capped GROUP BY failure ORDER BY failure"
    )
    found = rows(table.connection, sql, [until])
    is_whole = sum(row[3] for row in found) <= FAILED_MAX
    known = found if is_whole else found[:-1]
    return {str(kind): Failed(int(there), int(waits)) for kind, there, waits, _ in known}, is_whole


def _kinds(table: Table, last: str) -> Iterator[str]:
    """Those after one, by hopping: there may be many rows of each."""
    while True:
        sql = f"SELECT failure FROM {table.name} WHERE failure > %s ORDER BY failure LIMIT 1"
        found = rows(table.connection, sql, [last])
        if not found:
            return
        last = str(found[0][0])
        yield last


def count_kind(
    table: Table, kind: str, until: Any, most: int, queues: Sequence[str] = ()
) -> Failed:
    """The jobs with one failure, at most so many in each of the two states; those of some queues
    are looked for among 20,000 of each, since the index does not know them."""
    column, looked_at = ("queue", FAILED_MAX) if queues else ("1 AS one", most)
    wanted = f"queue IN ({placeholders(queues)})" if queues else "1 = 1"
    counts, is_more = [], False
    for condition, params in (("failed_at <= %s", [until]), ("failed_at IS NULL", [])):
        sql = (
            f"SELECT COUNT(*), COALESCE(SUM(CASE WHEN {wanted} THEN 1 ELSE 0 END), 0) "
            f"FROM (SELECT {column} FROM {table.name} WHERE failure = %s AND {condition} "
            f"LIMIT {looked_at + 1}) AS capped"
        )
        [(all_of_them, count)] = rows(table.connection, sql, [*queues, kind, *params])
        counts.append(int(count))
        is_more |= all_of_them > looked_at
    buried, retrying = counts
    return Failed(min(buried, most), min(retrying, most), is_more or max(counts) > most)


@dataclass(frozen=True)
class Due:
    """Delayed jobs whose time has come, and for how many seconds the first of them is due."""

    number: int = 0
    oldest_seconds: float | None = None


def due_and_since(table: Table, most: int) -> dict[str, Due]:
    """Those of the delayed jobs whose time has come, ``most`` at most."""
    age = f"-{table.dialect.seconds_until('MIN(retry_at)')}"
    sql = (
        f"SELECT queue, COUNT(*), {age} FROM (SELECT queue, retry_at FROM {table.name} "
        f"WHERE {PROMOTABLE} AND retry_at IS NOT NULL AND {table.dialect.is_past('retry_at')} "
        f"ORDER BY retry_at LIMIT {most}) AS capped GROUP BY queue"
    )
    return {
        str(queue): Due(int(count), None if seconds is None else round(float(seconds), 1))
        for queue, count, seconds in rows(table.connection, sql, [])
    }


def is_empty(table: Table) -> bool:
    """Whether a table holds no job in whatever state."""
    return not rows(table.connection, f"SELECT 1 FROM {table.name} LIMIT 1", [])


def oldest_ready(table: Table, queue: str) -> tuple[float | None, bool]:
    """The age of the oldest ready job: the first by key of each priority, by hopping; and whether
    it has a concurrency key, so that it may have waited for that.

    With more than 100 priorities, of the most urgent 100.
    """
    found = heads_by_priority(table, queue, PRIORITIES_MAX)
    ages = [(head.age, head.has_key) for head in found if head.age is not None]
    seconds, has_key = max(ages, default=(None, False))
    return None if seconds is None else round(seconds, 1), has_key
