"""One statement that looks at many tables of one database, most of which have nothing to do.

Where such a look is slow it tells nothing: then each table is looked at by itself, so that the one
whose dead entries are in the way is looked at from its low-water mark on.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from ..states import HELD, PROMOTABLE
from .execute import rows
from .low_water import is_slow
from .promotion import Moves, seconds_until_first
from .ready_queues import first_ready
from .table import Table

FEW = 2  # tables, which are looked at one by one
TABLES_MAX = 50  # in one statement


def have_ready(tables: Sequence[Table]) -> list[bool] | None:
    """Whether each has a ready job; None where such a look is slow."""
    found = _look(tables, lambda table: [first_ready(table, "1")])
    return None if found is None else [one is not None for (one,) in found]


def next_moves(tables: Sequence[Table]) -> list[Moves] | None:
    """What ``promotion.next_moves`` says of each; None where such a look is slow."""

    def of_one(table: Table) -> list[str]:
        return [seconds_until_first(table, kind) for kind in (PROMOTABLE, HELD)]

    found = _look(tables, of_one)
    return None if found is None else [(_seconds(due), _seconds(over)) for due, over in found]


def _seconds(told: Any) -> float | None:
    return None if told is None else float(told)


def _look(
    tables: Sequence[Table], queries: Callable[[Table], list[str]]
) -> list[tuple[Any, ...]] | None:
    """The answers to some queries about each table, each for one value."""
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(tables), TABLES_MAX):
        part = tables[start : start + TABLES_MAX]
        asked = [queries(table) for table in part]
        width = len(asked[0])
        columns = ", ".join(f"({query})" for of_table in asked for query in of_table)
        began = time.monotonic()
        [values] = rows(part[0].connection, f"SELECT {columns}", [])
        if is_slow(part[0], time.monotonic() - began, width * len(part)):
            return None
        found += [values[at : at + width] for at in range(0, len(values), width)]
    return found
