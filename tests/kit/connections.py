"""Connections to the test database, and what a test leaves behind on them and in the tables."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection, connections
from django.db.models import Model

from django_dbqueue.dialects import dialect_of
from django_dbqueue.metrics import recorder
from django_dbqueue.worker.session import close_left_behind

# What outlives its statement on a connection. Django begins SQLite's transactions by a BEGIN: there
# the connection tells whether one is left open.
LASTING = ("SET ", "SELECT SET_CONFIG", "PRAGMA ", "LISTEN", "LOCK ", "CREATE TEMP")
BEGINNING = ("BEGIN", "START ")


def is_mysql() -> bool:
    """MySQL itself, not MariaDB."""
    return not getattr(connection, "mysql_is_mariadb", True)


def other_connection() -> Any:
    """A second connection to the test database, as another process would have it."""
    copy = connections["default"].copy()
    copy.settings_dict = connections["default"].settings_dict
    return copy


def leave_alone(names: list[str]) -> None:
    """Close what this process has opened to these databases, and wait until nobody else has them
    open: PostgreSQL drops none that is in use, and a killed process may be in a statement."""
    connections.close_all()
    close_left_behind()
    if connection.vendor != "postgresql":
        return
    deadline = time.monotonic() + 30
    while found := _sessions(names):
        assert time.monotonic() < deadline, f"not left alone: {found}"
        time.sleep(0.1)
    connections.close_all()


def _sessions(names: list[str]) -> list[Any]:
    """Of others."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid, application_name, client_addr, state, state_change, query FROM "
            "pg_stat_activity WHERE datname = ANY(%s) AND pid <> pg_backend_pid()",
            [names],
        )
        return list(cursor.fetchall())


@contextmanager
def clean_database() -> Iterator[None]:
    """The test database in autocommit; afterwards our tables are empty, and the connection is as
    it was: kept, or closed if the test changed its session."""
    changes: list[str] = []
    is_sqlite = connection.vendor == "sqlite"
    lasting = LASTING if is_sqlite else LASTING + BEGINNING

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.lstrip().upper().startswith(lasting):
            changes.append(sql)
        return execute(sql, *rest)

    _statements(tuple(apps.get_models()))  # before the test gives a table another name
    # Not what the thread has later: a job that leaves a transaction open costs it its wrapper.
    before = connections["default"]
    before.execute_wrappers.append(note)
    try:
        yield
    finally:
        before.execute_wrappers.remove(note)
        if changes or not _is_at_rest(connection):
            connection.close()
        # What was counted and not written is no other test's.
        recorder._forget()
        forget_others(connections["default"])
        empty_tables()


def _is_at_rest(connection: Any) -> bool:
    """Whether nothing is open on it, and each statement commits by itself."""
    raw = connection.connection
    if raw is None or connection.in_atomic_block or not connection.autocommit:
        return False
    try:
        return connection.vendor != "sqlite" or not raw.in_transaction
    except connection.Database.ProgrammingError:  # somebody has closed it
        return False


def forget_others(connection: Any) -> None:
    """What it learned of other claimers belongs to another test: on MariaDB a claim that met with
    one takes jobs out of their order for a while. On PostgreSQL who has just notified is silent."""
    known = vars(dialect_of(connection))
    if "turns" in known:
        known["turns"] = type(known["turns"])()
    if "notifier" in known:
        known["notifier"].notified_at = float("-inf")


def empty_tables() -> None:
    """Delete from the tables that hold rows; one statement finds them."""
    which, deletes = _statements(tuple(apps.get_models()))
    full = {name for (name,) in _all_rows(which)}
    with connection.cursor() as cursor:
        for name, delete in deletes.items():
            if name in full:
                cursor.execute(delete)


def truncate(*tables: str) -> None:
    """Empty them as wholes: where rows are, with gaps, has PostgreSQL choose other plans."""
    connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), tables))


@cache
def _statements(models: tuple[type[Model], ...]) -> tuple[str, dict[str, str]]:
    """What finds the tables that hold rows; by table what empties it, in this order."""
    tables = [model._meta.db_table for model in reversed(models) if _ours(model)]
    deletes = {name: f"DELETE FROM {connection.ops.quote_name(name)}" for name in tables}
    return " UNION ALL ".join(map(_holds_rows, tables)), deletes


def _all_rows(sql: str) -> list[tuple[Any, ...]]:
    """PostgreSQL takes 7 ms to plan it, and 1 ms to run what it has prepared: once a connection."""
    if connection.vendor == "postgresql":
        import psycopg

        connection.ensure_connection()
        return list(psycopg.Cursor(connection.connection).execute(sql, prepare=True).fetchall())
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def _holds_rows(table: str) -> str:
    name = connection.ops.quote_name(table)
    return f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {name})"


def _ours(model: type[Model]) -> bool:
    label = model._meta.app_label
    is_stored = model._meta.managed and not model._meta.proxy
    return is_stored and (label in {"queueapp", "shop"} or "dbqueue" in label)
