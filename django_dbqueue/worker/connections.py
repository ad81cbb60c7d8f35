"""Connections of a runner's thread: what one job leaves on them does not reach the next one.

A transaction that nobody ends, a session's settings, roles, temporary tables and locks: none of it
may reach the next job, so such a connection is closed. What belongs to a transaction alone
(``SET LOCAL``) ends with it and costs no new connection.
"""

import re
import threading
from collections.abc import Iterable
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from .session import STATEMENT_WATCHDOG

SESSION_STATEMENTS = re.compile(
    r"\s*(?:SET\s+(?!LOCAL\b|TRANSACTION\b|CONSTRAINTS\b|STATEMENT\b)"
    r"|RESET\s|USE\s|PRAGMA\s|ATTACH\s|LISTEN\s|PREPARE\s|LOCK\s+TABLES\s"
    r"|CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL)\s+)?TEMP(?:ORARY)?\s)",
    re.IGNORECASE,
)
SESSION_FUNCTIONS = ("advisory_lock", "GET_LOCK(", "get_lock(", "set_config(")
CHANGED = "dbqueue_session_changed"
CHECK_SECONDS = 1.0  # between looks whether a thread's connections are still there


class _Opened(threading.local):
    """The connections of a thread that asked for it, kept, since looking for them takes time."""

    known: list[BaseDatabaseWrapper] | None = None

    def all(self) -> Iterable[BaseDatabaseWrapper]:
        return connections.all(initialized_only=True) if self.known is None else self.known


_opened = _Opened()


def watch_connections() -> None:
    """Note from here on which connections this thread opens, and what is done to their sessions."""
    _opened.known = list(connections.all(initialized_only=True))


def _note_opened(connection: BaseDatabaseWrapper, **_: object) -> None:
    """A new connection is as the project opens it."""
    if _opened.known is None:
        return
    vars(connection)[CHANGED] = False
    if _note_change not in connection.execute_wrappers:
        # First: Django takes off the last one where a wrapper's block ends.
        connection.execute_wrappers.insert(0, _note_change)
    if connection not in _opened.known:
        _opened.known.append(connection)


connection_created.connect(_note_opened, dispatch_uid="dbqueue")


def _note_change(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
    text = sql if isinstance(sql, str) else str(sql)
    if SESSION_STATEMENTS.match(text) or any(name in text for name in SESSION_FUNCTIONS):
        vars(context["connection"])[CHANGED] = True
    return execute(sql, params, many, context)


def reset_connections(*, failed: bool = False) -> None:
    """After user code: throw away what it left broken or open, keep the rest connected.

    Where an error ended the job, the server may have been replaced by another one: reconnect.
    ``CONN_MAX_AGE`` is not looked at: reconnecting for every job would halve the speed.
    """
    known = _opened.known
    for connection in _opened.all() if known is None else known:
        if connection.in_atomic_block:
            _discard(connection)
        elif connection.connection is None:
            continue
        elif (
            not connection.autocommit
            or getattr(connection, CHANGED, False)
            or (connection.errors_occurred and (failed or not _is_usable(connection)))
        ):
            connection.close()
        else:
            connection.errors_occurred = False
        if connection.queries_log:  # to ask whether it is kept at all takes longer
            connection.queries_log.clear()


def _discard(connection: BaseDatabaseWrapper) -> None:
    """Close it, and let the thread have a new wrapper. The old one would never connect again as
    long as a block of ``atomic()`` is open, say that of a generator which somebody keeps."""
    connection.close()
    if connections[connection.alias] is connection:
        del connections[connection.alias]
    if _opened.known is not None:
        _opened.known = [one for one in _opened.known if one is not connection]


def drop_dead_connections() -> None:
    """Before user code, after a pause: a server may have closed what was idle."""
    for connection in _opened.all():
        if connection.connection is not None and not _is_usable(connection):
            connection.close()


def _is_usable(connection: BaseDatabaseWrapper) -> bool:
    with STATEMENT_WATCHDOG.ends_in_time(connection):
        return connection.is_usable()
