"""Counting all jobs of a state, however many: by statements that each read a bounded number of
entries of an index, so that none of them takes long or keeps a snapshot for long.

A job that changes its state meanwhile is counted as it was at some moment of that; those that lie
still are counted once each.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..lifecycle.execute import rows
from ..lifecycle.keys import HAS_KEY, PARKED
from ..lifecycle.table import Table
from ..models.total import OTHERS
from ..states import Status

ROWS_FIRST, ROWS_MAX = 1_000, 100_000  # of one statement
TABLE_ROWS_MAX = 10_000  # of one that reads the rows themselves, which may have to come from a disk
ALIKE_MAX = 100_000  # at one place of an index, that are counted together
STEP_SECONDS = 0.05  # that it is to take, since an agent has other things to do
NAMES_MAX = 20_000  # of queues, that are held in memory
TIMES = ("retry_at",)
Place = Sequence[Any]  # the values of a walk's columns


class Pace:
    """How many rows the next statement is to read, and what all of them have taken."""

    def __init__(self) -> None:
        self.rows = ROWS_FIRST
        self.seconds = 0.0

    def took(self, seconds: float, most: int | None = None) -> None:
        """``most`` rows are to be read at once, if that is less than usual."""
        self.seconds += seconds
        factor = min(2.0, STEP_SECONDS / max(seconds, 0.001))
        self.rows = int(max(ROWS_FIRST, min(most or ROWS_MAX, ROWS_MAX, self.rows * factor)))


@dataclass(frozen=True)
class Walk:
    """Rows in the order of an index. ``wanted``: which of them are counted, where the index knows
    others, too. Without ``is_unique`` many of them may have one and the same place."""

    condition: str
    columns: tuple[str, ...]
    wanted: str = ""
    is_unique: bool = True
    # The same as the condition, for a database that, told that a state is equal to one, reads all
    # rows in it from the first on, wherever a step begins.
    state_range: str = ""

    @property
    def rows_max(self) -> int:
        """Of one statement: only an index for claims holds the queues."""
        return ROWS_MAX if "queue" in self.columns else TABLE_ROWS_MAX


class TooManyAlike(Exception):
    """More rows than one statement is to read have the same place in an index."""


def count(table: Table, status: Status, pace: Pace, found: Counter[str]) -> Iterator[None]:
    """Count the jobs in a state by queue; each step is two statements."""
    try:
        for walk in _walks(table, status):
            yield from _walked(table, walk, pace, found)
    except TooManyAlike:
        found.clear()
        yield from _walked(table, _by_key(table, status), pace, found)


def _walks(table: Table, status: Status) -> list[Walk]:
    state = f"status = {status:d}"
    by_claim = ("queue", "priority", table.pk)
    if not table.connection.features.supports_partial_indexes:
        return [Walk(state, by_claim, state_range=f"status >= {status:d} AND status <= {status:d}")]
    if status == Status.READY:
        return [Walk(state, by_claim)]
    if status == Status.DONE:
        return [_by_key(table, status)]
    if status == Status.BURIED:
        return [Walk(state, (table.pk,))]
    walks = [Walk(f"{state} AND retry_at IS NOT NULL", TIMES, is_unique=False)]
    if status == Status.DELAYED and table.takes_keys:
        parked = f"{PARKED} AND {HAS_KEY}"
        walks.append(Walk(parked, ("concurrency_key", "priority", table.pk)))
    return walks


def _by_key(table: Table, status: Status) -> Walk:
    """Through the whole table: no index holds all of them."""
    return Walk("1 = 1", (table.pk,), wanted=f"status = {status:d}")


def _walked(table: Table, walk: Walk, pace: Pace, found: Counter[str]) -> Iterator[None]:
    after: Place | None = None
    if walk.rows_max < ROWS_MAX:
        pace.rows = ROWS_FIRST  # what was read fast was an index
    while True:
        began, most = time.monotonic(), pace.rows
        end = _place_of(table, walk, after, most)
        counted = _between(table, walk, after, end, 2 * most)
        pace.took(time.monotonic() - began, walk.rows_max)
        is_whole = sum(counted.values()) < 2 * most
        if not is_whole and not walk.is_unique:
            yield
            counted, is_whole = _alike(table, walk, pace, after, end), True
        if is_whole:
            _add(found, counted)
            after = end
        # Else so many came meanwhile: this part is counted again.
        yield
        if is_whole and end is None:
            return


def _alike(
    table: Table, walk: Walk, pace: Pace, after: Place | None, end: Place | None
) -> dict[str, int]:
    """As ``_between``, where many rows are at the end; the others are few."""
    began = time.monotonic()
    counted = _between(table, walk, after, end, ALIKE_MAX)
    pace.took(time.monotonic() - began, walk.rows_max)
    if sum(counted.values()) >= ALIKE_MAX:
        raise TooManyAlike
    return counted


def _place_of(table: Table, walk: Walk, after: Place | None, number: int) -> Place | None:
    """The place of the so-manieth row after another; None where there are fewer."""
    beyond, params = _compared(table, walk, after, ">")
    names = ", ".join(walk.columns)
    # As it is stored: a driver may make a time of it that is another one when it is written again.
    read = f"CAST({names} AS TEXT) AS place" if walk.columns == TIMES else names
    order = f"status, {names}" if walk.state_range else names
    sql = (
        f"SELECT {read} FROM {table.name} WHERE {walk.state_range or walk.condition}{beyond} "
        f"ORDER BY {order} LIMIT 1 OFFSET {number - 1}"
    )
    return next(iter(rows(table.connection, sql, params)), None)


def _between(
    table: Table, walk: Walk, after: Place | None, end: Place | None, most: int
) -> dict[str, int]:
    """How many rows lie between two places, by queue; of no more than ``most``."""
    beyond, first = _compared(table, walk, after, ">")
    up_to, last = _compared(table, walk, end, "<=")
    within = f"FROM {table.name} WHERE {walk.condition}{beyond}{up_to}"
    if table.connection.features.supports_partial_indexes:
        # In the order of an index, and limited, no database believes that it finds as many sooner
        # by reading the table from its beginning.
        what = "queue, status" if walk.wanted else "queue"
        order = f"ORDER BY {', '.join(walk.columns)} LIMIT {most}"
        wanted = f" WHERE {walk.wanted}" if walk.wanted else ""
        sql = f"SELECT queue, COUNT(*) FROM (SELECT {what} {within} {order}) AS step{wanted}"
    else:
        # The index has them by queue; MariaDB would copy a limited part, the names at full length.
        sql = f"SELECT queue, COUNT(*) {within}"
    found = rows(table.connection, f"{sql} GROUP BY queue", [*first, *last])
    return {str(queue): int(number) for queue, number in found}


def _compared(table: Table, walk: Walk, place: Place | None, sign: str) -> tuple[str, list[Any]]:
    """SQL, with its parameters, for: a row is beyond a place, or up to it."""
    if place is None:
        return "", []
    marks = [table.dialect.placeholder(value) for value in place]
    if table.dialect.compares_rows:
        return f" AND ({', '.join(walk.columns)}) {sign} ({', '.join(marks)})", list(place)
    *outer, (name, mark) = zip(walk.columns, marks, strict=True)
    sql, params = f"{name} {sign} {mark}", [place[-1]]
    for (name, mark), value in zip(reversed(outer), reversed(place[:-1]), strict=True):
        sql = f"({name} {sign[0]} {mark} OR ({name} = {mark} AND {sql}))"
        params = [value, value, *params]
    return f" AND {sql}", params


def _add(found: Counter[str], counted: dict[str, int]) -> None:
    for queue, number in counted.items():
        found[queue if queue in found or len(found) < NAMES_MAX else OTHERS] += number
