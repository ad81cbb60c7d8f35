"""How much a database reads to answer: rows, where a clock tells more of the neighbours."""

import itertools
from collections.abc import Callable

from django.db import connection

# Of SQLite's machine; it needs about as many to go over a row of a list.
INSTRUCTIONS = 20


def read_by(action: Callable[[], object]) -> int:
    """The rows, and entries of indexes, that a database went over meanwhile; on SQLite twenties of
    instructions. Nobody else may be at work in it."""
    if connection.vendor == "sqlite":
        return _twenties(action)
    before = SUMS[connection.vendor]()
    action()
    return SUMS[connection.vendor]() - before


def _handler_reads() -> int:
    """Of this session, on MariaDB."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(value) for _, value in cursor.fetchall())


def _tuples() -> int:
    """Of the whole database, on PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT (SELECT SUM(seq_tup_read) FROM pg_stat_user_tables) "
            "+ (SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes)"
        )
        return int(cursor.fetchone()[0])


SUMS = {"mysql": _handler_reads, "postgresql": _tuples}


def _twenties(action: Callable[[], object]) -> int:
    calls = itertools.count()
    connection.ensure_connection()
    connection.connection.set_progress_handler(lambda: next(calls) and None, INSTRUCTIONS)
    try:
        action()
    finally:
        connection.connection.set_progress_handler(None, INSTRUCTIONS)
    return next(calls)
