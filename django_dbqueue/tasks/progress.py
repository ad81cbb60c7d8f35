"""How far a task is, as it says itself: a hint, which costs no task its end."""

import logging
import math
import time
from contextlib import suppress
from operator import index
from typing import Any

from django.db import connections
from django.db.utils import Error, InterfaceError, OperationalError

from ..dialects import ErrorKind, dialect_of
from ..exceptions import first_line, shown

logger = logging.getLogger("django_dbqueue")

PROGRESS_SECONDS = 1.0  # between two that are written


def write_progress(row: Any, done: Any, total: Any, note: str) -> None:
    """``Context.progress``, of a claimed row. ``ValueError`` names what is no number."""
    done = _number(done, "done")
    total = None if total is None else _number(total, "total")
    now, is_last = time.monotonic(), total is not None and done >= total
    if not is_last and now - vars(row).get("_progress_at", float("-inf")) < PROGRESS_SECONDS:
        return
    vars(row)["_progress_at"] = now
    row.progress = {"done": done, "total": total, "note": str(note)[:500]}
    _write(row)


def _number(value: Any, name: str) -> float:
    """Also a decimal, and what a library has of its own: numbers that JSON knows."""
    if not isinstance(value, bool):
        with suppress(TypeError):
            return index(value)
        with suppress(TypeError, ValueError, OverflowError):
            if hasattr(value, "__float__") and math.isfinite(number := float(value)):
                return number
    raise ValueError(f"{name} must be a number, not {shown(value)}")


def _write(row: Any) -> None:
    connection = connections[row._state.db]
    rows = type(row)._base_manager.using(connection.alias).filter(pk=row.pk)
    is_in_transaction = connection.in_atomic_block or (
        connection.connection is not None and not connection.autocommit
    )
    try:
        rows.filter(owner=row.claim_owner).update(progress=row.progress)
    except Error as error:
        kind = dialect_of(connection).error_kind(error)
        is_of_the_moment = kind or isinstance(error, OperationalError | InterfaceError)
        if is_in_transaction or not is_of_the_moment:
            raise
        logger.warning("%s: its progress was not written: %s", row, first_line(error))
        if kind in {ErrorKind.LOST, ErrorKind.READ_ONLY}:
            connection.close()  # the task's next statement opens another
