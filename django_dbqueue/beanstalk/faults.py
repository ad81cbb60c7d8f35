"""Whose fault an error is: the database's, which asks for another try, or the command's."""

from django.core.exceptions import ValidationError
from django.db.utils import Error

from ..dialects import ErrorKind
from ..exceptions import QueueFull
from ..lifecycle.table import Table

FAULTS = (Error, ValueError, ValidationError, QueueFull)


def is_to_be_repeated(table: Table, error: Exception) -> bool:
    """Whether the database asks for another try, or is away."""
    kind = table.dialect.error_kind(error) if isinstance(error, Error) else None
    return kind is not None and kind is not ErrorKind.FULL
