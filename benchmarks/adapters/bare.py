"""Bare SQL: the least that any queue in this table must do, with the driver alone.

Our own no-op table, by our own claim statement but with two columns only. No Django, and no
instance, is in the loop. "like ours" is like for like with our best mode: as many rows a statement,
claims on one connection and completions on another one, in a thread of its own; on SQLite, where
one writes at a time, one thread does both, as ours does.
"""

import os
import sqlite3
import time
from collections.abc import Sequence
from functools import cache
from queue import Queue
from threading import Thread
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from benchmarks import marks
from benchmarks.adapters import dbqueue
from benchmarks.django_project import Mode
from django_dbqueue.dialects import Claim, Dialect, dialect_of

RETENTION = TIME_TO_RUN = 3600
IDLE = 0.05  # seconds
ONE_CONNECTION = "one connection"
ROWS = 500
ROWS_OF_ONE_CONNECTION = 100
Batches = Queue[list[int]]


class Adapter(dbqueue.Adapter):
    modes = {
        ONE_CONNECTION: Mode(()),
        "like ours": Mode(()),
        "like ours, letting go": Mode(()),
        "like ours, durable": Mode((), durability="FULL"),
    }

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        self.is_alone = mode == ONE_CONNECTION

    def work(self) -> None:
        connection = connections["default"]
        dialect, cursor = dialect_of(connection), cursor_of_driver(connection)
        limit = ROWS_OF_ONE_CONNECTION if self.is_alone else ROWS
        claim = claim_of(dialect, self.table._meta.db_table, limit, f"bare-{os.getpid()}")
        ran: Batches = Queue(1)
        apart = not (self.is_alone or dialect.one_writer)
        if apart:
            Thread(target=complete_what_ran, args=[claim, ran], daemon=True).start()
        while True:
            if rows := dialect.claim(cursor, claim):
                for _, number in rows:
                    marks.mark(number)
                keys = [key for key, _ in rows]
                ran.put(keys) if apart else complete(dialect, cursor, claim, keys)
            else:
                time.sleep(IDLE)


def complete_what_ran(claim: Claim, ran: Batches) -> None:
    connection = connections["default"]
    dialect, cursor = dialect_of(connection), cursor_of_driver(connection)
    while True:
        complete(dialect, cursor, claim, ran.get())


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
        in_order=False,
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
