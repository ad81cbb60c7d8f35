"""Looks at many tables of a database in one statement, as long as none of them makes trouble."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db.utils import Error

from ..dialects import ErrorKind
from ..lifecycle.many_tables import FEW
from ..lifecycle.table import Table
from .session import LOCKED_SECONDS

T = TypeVar("T")


class JointLook:
    """After trouble (a table is locked, or is not migrated, or the look was slow) each table is
    looked at by itself for a while, which finds out whose trouble it is."""

    def __init__(self) -> None:
        self._not_before: dict[str, float] = {}

    def at(
        self, tables: Sequence[Table], look: Callable[[Sequence[Table]], list[T] | None]
    ) -> dict[tuple[str, str], T]:
        """What is told of each, by its place; nothing of those that are to be looked at alone."""
        by_alias: dict[str, list[Table]] = defaultdict(list)
        for table in tables:
            by_alias[table.connection.alias].append(table)
        told: dict[tuple[str, str], T] = {}
        for alias, some in by_alias.items():
            if len(some) <= FEW or time.monotonic() < self._not_before.get(alias, 0.0):
                continue
            if (answers := _answers(some, look)) is None:
                self._not_before[alias] = time.monotonic() + LOCKED_SECONDS
            else:
                told |= {table.place: one for table, one in zip(some, answers, strict=True)}
        return told


def _answers(
    tables: Sequence[Table], look: Callable[[Sequence[Table]], list[T] | None]
) -> list[T] | None:
    try:
        return look(tables)
    except Error as error:
        # A connection that is lost is everybody's business; a table's own error is told by a look
        # at that table.
        if tables[0].dialect.error_kind(error) in {ErrorKind.LOST, ErrorKind.READ_ONLY}:
            raise
        return None
