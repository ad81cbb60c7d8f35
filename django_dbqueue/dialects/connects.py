"""Errors that a connection is to blame for, whatever their code."""

from inspect import unwrap
from traceback import walk_tb

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error, InterfaceError, NotSupportedError

from .types import ErrorKind

CONNECT = unwrap(BaseDatabaseWrapper.connect).__code__


def kind_by_connection(error: Error) -> ErrorKind | None:
    """What is lost, or could not be opened, to this database or another one. Why a server lets
    nobody in has many codes, and none of them says anything of a statement."""
    if isinstance(error, InterfaceError):
        return ErrorKind.LOST
    if isinstance(error, NotSupportedError):
        return None  # Django finds the server too old
    is_of_connect = any(frame.f_code is CONNECT for frame, _ in walk_tb(error.__traceback__))
    return ErrorKind.LOST if is_of_connect else None
