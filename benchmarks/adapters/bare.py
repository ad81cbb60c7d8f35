"""Bare SQL: the least that any queue in this table must do, with the driver alone.

One thread on one connection claims the rows of our own no-op table, by our own claim statement but
with two columns only, and completes them. No Django, and no instance, is in the loop.
"""

import os
import sqlite3
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from benchmarks.adapters import dbqueue
from benchmarks.django_project import Mode
from benchmarks.marks import mark
from django_dbqueue.dialects import Claim, Dialect, dialect_of

RETENTION = TIME_TO_RUN = 3600
IDLE = 0.05  # seconds


class Adapter(dbqueue.Adapter):
    modes = {"batches of 100": Mode(())}
    limit = 100

    def work(self) -> None:
        connection = connections["default"]
        dialect, cursor = dialect_of(connection), cursor_of_driver(connection)
        claim = claim_of(dialect, self.table._meta.db_table, self.limit, f"bare-{os.getpid()}")
        while True:
            if rows := dialect.claim(cursor, claim):
                for _, number in rows:
                    mark(number)
                complete(dialect, cursor, claim, [key for key, _ in rows])
            else:
                time.sleep(IDLE)


def claim_of(dialect: Dialect, table: str, limit: int, owner: str) -> Claim:
    return Claim(
        table=table,
        pk="id",
        columns="id, number",
        queue="default",
        limit=limit,
        owner=owner,
        sets=f"status = 1, owner = %s, attempts = attempts + 1, dequeued_time = {dialect.now}, "
        f"retry_at = {dialect.now_plus('%s')}",
        params=[owner, TIME_TO_RUN],
        strict_order=False,
    )


def complete(dialect: Dialect, cursor: Any, claim: Claim, keys: Sequence[int]) -> None:
    places = ", ".join(["%s"] * len(keys))
    cursor.execute(
        f"UPDATE {dialect.by_key(claim.table)} SET status = 2, finished_at = {dialect.now}, "
        f"dedup_key = NULL, retry_at = {dialect.now_plus('%s')} "
        f"WHERE id IN ({places}) AND status = 1 AND owner = %s",
        [RETENTION, *sorted(keys), claim.owner],
    )


def cursor_of_driver(connection: BaseDatabaseWrapper) -> Any:
    """Of a connection that Django has opened, so that its settings are the same as ours."""
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        return connection.connection.cursor(QmarkCursor)
    return connection.connection.cursor()


class QmarkCursor(sqlite3.Cursor):
    """SQLite's driver has another sign for parameters."""

    def execute(self, sql: str, params: Any = ()) -> "QmarkCursor":
        super().execute(with_qmarks(sql), params)
        return self


@cache
def with_qmarks(sql: str) -> str:
    return sql.replace("%s", "?").replace("%%", "%")
