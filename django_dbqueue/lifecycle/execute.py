"""Running a statement, again where the database asks for it, and counting that."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error

from ..dialects import Trouble, dialect_of

logger = logging.getLogger("django_dbqueue")
T = TypeVar("T")


class Retries:
    """How many statements this process has run again, for the curious and for tests."""

    count = 0
    lock = threading.Lock()

    @classmethod
    def add(cls) -> None:
        with cls.lock:
            cls.count += 1


_nap = threading.Event()


def again(connection: BaseDatabaseWrapper, work: Callable[[], T]) -> T:
    """Run a unit of work, and again while the database asks for it.

    Inside somebody's transaction it runs once: what the database rolled back is theirs to repeat.
    """
    if connection.in_atomic_block:
        return work()
    dialect = dialect_of(connection)
    for pause in dialect.retry_pauses():
        try:
            return work()
        except Error as error:
            if dialect.trouble(error) is not Trouble.AGAIN:
                raise
            logger.debug("%s asks for another try: %s", connection.alias, error)
            Retries.add()
            _roll_back(connection)
            _nap.wait(pause)
    return work()


def _roll_back(connection: BaseDatabaseWrapper) -> None:
    # A lock wait timeout or a killed query leaves the transaction open with its locks.
    if connection.connection is not None and not connection.in_atomic_block:
        connection.rollback()


def changed(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> int:
    """Run one writing statement; the number of rows it matched is the answer."""

    def run() -> int:
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            return int(cursor.rowcount)

    return again(connection, run)


def rows(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Run one reading statement."""

    def run() -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            return list(cursor.fetchall())

    return again(connection, run)


def together(connection: BaseDatabaseWrapper, work: Callable[[], T]) -> T:
    """Run a unit of work in one transaction."""

    def run() -> T:
        with transaction.atomic(using=connection.alias):
            return work()

    return again(connection, run)


def places(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))
