"""Whose fault an error is: the database's, which asks for another try, or the command's."""

import time
from collections.abc import Callable
from typing import TypeVar

from django.core.exceptions import ValidationError
from django.db.utils import Error

from ..dialects import ErrorKind
from ..exceptions import QueueFull
from ..lifecycle.table import Table
from ..worker.session import ReconnectBackoff

T = TypeVar("T")
# A column of SQLite may hold what is of another type.
FAULTS = (Error, ValueError, TypeError, ValidationError, QueueFull)


def kind_of(table: Table, error: Exception) -> ErrorKind | None:
    return table.dialect.error_kind(error) if isinstance(error, Error) else None


def is_to_be_repeated(table: Table, error: Exception) -> bool:
    """Whether the database asks for another try, or is away."""
    kind = kind_of(table, error)
    return kind is not None and kind is not ErrorKind.FULL


def is_locked(table: Table, error: Exception) -> bool:
    """Whether it has lasted for seconds that somebody has locked what the command needs; others may
    need something else, but for a database that is locked as a whole."""
    locks_rows = table.connection.features.has_select_for_update
    return locks_rows and kind_of(table, error) is ErrorKind.AGAIN


class Fence:
    """Around a part of a turn: where the database refuses it, as when its disk is full, the rest of
    the turn goes on."""

    def __init__(self, what: str) -> None:
        self._backoff = ReconnectBackoff(what)
        self.again_at = 0.0  # when it is to be tried again

    def run(self, table: Table, work: Callable[[], T]) -> T | None:
        """None: it was refused. What asks for another try of all is raised."""
        try:
            done = work()
        except FAULTS as error:
            if is_to_be_repeated(table, error):
                raise
            self.again_at = time.monotonic() + self._backoff.failed(error)
            return None
        self.worked()
        return done

    def worked(self) -> None:
        self._backoff.worked()
