"""What is ready in a queue table: how many jobs of a queue, and for how long the first ones are."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..states import CLAIMABLE
from .execute import rows
from .keys import HAS_KEY
from .table import Table

QUEUES_MAX = 100  # of one statement


class Head(NamedTuple):
    """The first ready job of a queue with a certain priority; the age is that of its row: 0 if
    it came later than now, and None where somebody wrote by hand what is no instant."""

    priority: Any
    key: Any
    age: float | None
    has_key: bool  # a concurrency key


def heads_by_priority(table: Table, queue: str, most: int) -> Iterator[Head]:
    """The first by key of each priority, by hopping, the most urgent first."""
    place = table.dialect.placeholder
    has_key = HAS_KEY if table.takes_keys else "1 = 0"
    last: list[Any] = []
    for _ in range(most):
        beyond = f"AND priority > {place(last[0])} " if last else ""
        found = rows(
            table.connection,
            f"SELECT priority, {table.pk}, -{table.dialect.seconds_until('created_at')}, {has_key} "
            f"FROM {table.name} WHERE queue = {place(queue)} AND {CLAIMABLE} {beyond}"
            f"ORDER BY priority, {table.pk} LIMIT 1",
            [queue, *last],
        )
        if not found:
            return
        [(priority, key, age, is_keyed)] = found
        last = [priority]
        since = None if age is None else max(0.0, float(age))
        yield Head(priority, key, since, bool(is_keyed))


def head_ages(table: Table, queues: Sequence[str]) -> dict[str, float]:
    """For how many seconds the first ready job of each queue waits, where it has one."""
    place, age = table.dialect.placeholder, f"-{table.dialect.seconds_until('created_at')}"
    found: dict[str, float] = {}
    for start in range(0, len(queues), QUEUES_MAX):
        chunk = queues[start : start + QUEUES_MAX]
        parts = (
            f"SELECT * FROM (SELECT queue, {age} AS seconds FROM {table.name} WHERE {CLAIMABLE} "
            f"AND queue = {place(name)} ORDER BY priority, {table.pk} LIMIT 1) AS queue{number}"
            for number, name in enumerate(chunk)
        )
        for name, seconds in rows(table.connection, " UNION ALL ".join(parts), chunk):
            found[str(name)] = max(0.0, float(seconds or 0))
    return found


def count_ready(table: Table, queue: str, most: int) -> int:
    """The ready jobs of one queue; one more than ``most`` where there are more."""
    sql = (
        f"SELECT COUNT(*) FROM (SELECT 1 FROM {table.name} WHERE {CLAIMABLE} "
        f"AND queue = {table.dialect.placeholder(queue)} LIMIT {most + 1}) AS capped"
    )
    [(count,)] = rows(table.connection, sql, [queue])
    return int(count)
