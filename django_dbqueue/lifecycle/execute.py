"""Running a statement, again where the database asks for it, and counting that."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error

from .. import events
from ..dialects import ErrorKind, dialect_of
from .table import Table

logger = logging.getLogger("django_dbqueue")
T = TypeVar("T")
LASTING = 1.9  # seconds after which a lock has timed out, and would again
BRIEF = 0.2  # seconds after which a lock is somebody's who keeps it


class Retries:
    """How many statements this process has run again, for the curious and for tests."""

    count = 0
    lock = threading.Lock()

    @classmethod
    def add(cls) -> None:
        with cls.lock:
            cls.count += 1


_nap = threading.Event()


def retry(connection: BaseDatabaseWrapper, work: Callable[[], T], seconds: float = LASTING) -> T:
    """Run a unit of work, and again while the database asks for it; a lock that lasts is an error.

    Inside somebody's transaction it runs once: what the database rolled back is theirs to repeat.
    """
    if connection.in_atomic_block:
        return work()
    give_up, pauses = time.monotonic() + seconds, dialect_of(connection).retry_pauses()
    while True:
        try:
            return work()
        except Error as error:
            _prepare_another_try(connection, error)
            pause = next(pauses, None)
            if pause is None or time.monotonic() > give_up:
                raise
            _nap.wait(pause)


def try_once(connection: BaseDatabaseWrapper, work: Callable[[], T]) -> T | None:
    """Like ``retry``, but one wait for a lock is enough: None = come by another time.

    For those who have much else to do meanwhile: a user's transaction may last for hours.
    """
    try:
        return retry(connection, work, BRIEF)
    except Error as error:
        is_locked = dialect_of(connection).error_kind(error) is ErrorKind.AGAIN
        if connection.in_atomic_block or not is_locked:
            raise
        return None


def _prepare_another_try(connection: BaseDatabaseWrapper, error: Error) -> None:
    """Raises the error where the database does not ask for another try, or of our work alone."""
    is_theirs = connection.connection is not None and not connection.autocommit
    if is_theirs or dialect_of(connection).error_kind(error) is not ErrorKind.AGAIN:
        raise error
    logger.debug("%s asks for another try: %s", connection.alias, error)
    Retries.add()
    events.retried(connection.alias)
    # A lock wait timeout or a killed query leaves the transaction open with its locks.
    if connection.connection is not None and not connection.in_atomic_block:
        connection.rollback()


def changed(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> int:
    """Run one writing statement; the number of rows it matched is the answer."""
    return retry(connection, partial(changed_once, connection, sql, params))


def changed_once(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> int:
    """The same, once: the caller sees to another try."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return int(cursor.rowcount)


def rows(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Run one reading statement, for ourselves: what is no text is read in some way."""

    def run() -> list[tuple[Any, ...]]:
        with dialect_of(connection).decode_leniently():
            return _fetched(connection, sql, params)

    return retry(connection, run)


def exact_rows(
    connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """The same for user code: what cannot be read is an error."""
    return retry(connection, partial(_fetched, connection, sql, params))


def _fetched(
    connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any]
) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def in_transaction(
    connection: BaseDatabaseWrapper, work: Callable[[], T], *, savepoint: bool = True
) -> T:
    """Run a unit of work in one transaction. Without a savepoint an error in it lets no transaction
    of the caller's commit any more."""
    return retry(connection, partial(_atomically, connection, work, savepoint=savepoint))


def try_once_in_transaction(connection: BaseDatabaseWrapper, work: Callable[[], T]) -> T | None:
    """The same; None where a lock lasts."""
    return try_once(connection, partial(_atomically, connection, work))


def _atomically(
    connection: BaseDatabaseWrapper, work: Callable[[], T], *, savepoint: bool = True
) -> T:
    was_in_autocommit = connection.get_autocommit()
    try:
        with transaction.atomic(using=connection.alias, savepoint=savepoint):
            return work()
    finally:
        # An error on the way back to it would have the next tries, and all after them, be lost.
        if was_in_autocommit and not connection.autocommit:
            connection.close()


def unlocked_keys(table: Table, keys: Sequence[Any], name: str = "") -> list[Any]:
    """Those of the keys whose rows nobody has locked; in a transaction they are ours from here on.

    All of them where the database cannot tell. They are reached by key: a locking read through
    another index would lock the gaps between rows, too.
    """
    connection = table.connection
    if not keys or not connection.features.has_select_for_update_skip_locked:
        return list(keys)
    skip = connection.ops.for_update_sql(skip_locked=True)
    found = rows(
        connection,
        f"SELECT {table.pk} FROM {table.dialect.by_key(name or table.name)} "
        f"WHERE {table.pk} IN ({placeholders(keys)}) {skip}",
        keys,
    )
    return [key for (key,) in found]


def placeholders(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))
