"""Whose fault an error is: the database's, which asks for another try, or the command's."""

from django.core.exceptions import ValidationError
from django.db.utils import Error

from ..dialects import ErrorKind
from ..exceptions import QueueFull
from ..lifecycle.table import Table

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
