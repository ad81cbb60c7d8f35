"""Which queues of a table have ready jobs: one look-up in the index for each of them."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

from ..dialects.floors import ready_above
from ..dialects.types import Floor
from ..fields import check_name
from ..states import CLAIMABLE
from .execute import rows
from .limiter import SEPARATOR, Limiter, limiter_of
from .low_water import Head
from .table import Table

Queues = str | Sequence[str] | None  # one name, several, or all


def ready_queues(table: Table, most: int = 1000, after: str = "") -> list[str]:
    """Up to ``most`` names of queues with ready jobs, as ``heads``."""
    return [head.queue for head in heads(table, most, after)]


def named(table: Table, queues: Queues) -> list[str]:
    """The names of one queue, or of several; of all with ready jobs in any order, so that none
    comes first for ever. ``ValidationError`` where one is no name."""
    if queues is None:
        names = ready_queues(table)
        random.shuffle(names)
        return names
    several = isinstance(queues, Iterable) and not isinstance(queues, str)
    names = list(queues) if several else [queues]  # type: ignore[list-item]
    for name in names:
        check_name(name, "queue")
    limiter = limiter_of(table.model)
    if limiter is None or not limiter.has_lanes:
        return names
    return [lane for name in names for lane in (*_lanes(table, name, limiter), name)]


def _lanes(table: Table, queue: str, limiter: Limiter) -> list[str]:
    """The lanes of a queue that have ready jobs, those that go first first."""
    return sorted((head.queue for head in lane_heads(table, queue)), key=limiter.order)


def heads(table: Table, most: int = 1000, after: str = "") -> list[Head]:
    """The first ready jobs of up to ``most`` queues, one index look-up each.

    They begin after the name ``after`` and go on round, so that with the last name of one answer
    the next one finds the rest.
    """
    found = _heads(table, after, None, most)
    if after and len(found) < most:
        found += _heads(table, "", after, most - len(found))
    return found


def head_of(table: Table, queue: str) -> Head | None:
    """The first ready job of one queue."""
    return _first(table, f"queue = {table.dialect.placeholder(queue)}", [queue])


def lane_heads(table: Table, queue: str, most: int = 1000) -> list[Head]:
    """The first ready jobs of the lanes of one queue."""
    beyond = queue + chr(ord(SEPARATOR) + 1)  # as a queue of its own may be called
    found = _heads(table, queue + SEPARATOR, beyond, most)
    return [head for head in found if head.queue != beyond]


def has_ready(table: Table, queue: str, floors: Sequence[Floor] = ()) -> bool:
    """Whether one queue has a ready job; at or above the floors, where there are any."""
    if not floors:
        return head_of(table, queue) is not None
    for floor in floors:
        above, bounds = ready_above(table.dialect, table.name, table.pk, queue, floor)
        if rows(table.connection, f"SELECT 1 {above} LIMIT 1", bounds):
            return True
    return False


def _heads(table: Table, after: str, until: str | None, most: int) -> list[Head]:
    placeholder = table.dialect.placeholder
    last = [] if until is None else [until]
    others = f"AND queue <= {placeholder(until)}" if last else ""
    # '' only by hand; such a job is to be found, too.
    first = f"queue {'>' if after else '>='} {placeholder(after)} {others}"
    if sql := table.dialect.heads(table.name, table.pk, first, others, most):
        return [Head(*row) for row in rows(table.connection, sql, [after, *last, *last])]
    found: list[Head] = []
    while len(found) < most and (head := _first(table, first, [after, *last])):
        found.append(head)
        # The database compares: it may order names otherwise than Python does.
        after, first = head.queue, f"queue > {placeholder(head.queue)} {others}"
    return found


def _first(table: Table, condition: str, params: Sequence[Any]) -> Head | None:
    query = first_ready(table, f"queue, priority, {table.pk}", f" AND {condition}")
    found = rows(table.connection, query, params)
    return Head(*found[0]) if found else None


def first_ready(table: Table, columns: str, condition: str = "") -> str:
    """A query for the first ready job, found by the index."""
    return (
        f"SELECT {columns} FROM {table.name} WHERE {CLAIMABLE}{condition} "
        f"ORDER BY queue, priority, {table.pk} LIMIT 1"
    )
