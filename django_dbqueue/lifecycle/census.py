"""Counting jobs without ever counting all of a large table."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..states import Status
from .execute import rows
from .table import Table

CAP = 10_000


@dataclass
class Census:
    """How many jobs of one queue are in each state (at most 10,000 are counted), and the age of
    the oldest ready one in seconds."""

    table: str
    queue: str
    counts: dict[str, int] = field(default_factory=dict)
    oldest_seconds: float | None = None


def queue_names(table: Table) -> Iterator[str]:
    """Every queue that has a job, by hopping through the index that begins with the queue."""
    last = ""
    while found := rows(
        table.connection,
        f"SELECT queue FROM {table.name} WHERE queue > %s ORDER BY queue LIMIT 1",
        [last],
    ):
        last = str(found[0][0])
        yield last


def count_queue(table: Table, queue: str) -> Census:
    census = Census(table.label, queue)
    for status in Status:
        [(count,)] = rows(
            table.connection,
            f"SELECT COUNT(*) FROM (SELECT 1 FROM {table.name} "
            f"WHERE queue = %s AND status = {status:d} LIMIT {CAP}) AS capped",
            [queue],
        )
        census.counts[status.label] = int(count)
    census.oldest_seconds = _oldest(table, queue)
    return census


def _oldest(table: Table, queue: str) -> float | None:
    """Age of the first in line, which is the oldest of the most urgent ones."""
    found = rows(
        table.connection,
        f"SELECT -{table.dialect.seconds_until('created_at')} FROM {table.name} "
        f"WHERE queue = %s AND status = 0 ORDER BY priority, {table.pk} LIMIT 1",
        [queue],
    )
    return round(float(found[0][0]), 1) if found else None
