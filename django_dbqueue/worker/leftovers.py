"""What a job may leave behind on the connections of its thread.

A transaction that nobody ends, a session's settings, roles, temporary tables and locks: none of it
may reach the next job, so such a connection is closed. What belongs to a transaction alone
(``SET LOCAL``) ends with it and costs no new connection.
"""

import re
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

BEGINNINGS = re.compile(
    r"\s*(?:SET\s+(?!LOCAL\b|TRANSACTION\b|CONSTRAINTS\b|STATEMENT\b)"
    r"|RESET\s|USE\s|PRAGMA\s|ATTACH\s|LISTEN\s|PREPARE\s|LOCK\s+TABLES\s"
    r"|CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL)\s+)?TEMP(?:ORARY)?\s)",
    re.IGNORECASE,
)
FUNCTIONS = ("advisory_lock", "GET_LOCK(", "get_lock(", "set_config(")
MARK = "dbqueue_session_changed"


def watch_session(connection: BaseDatabaseWrapper) -> None:
    """Note from here on what changes the session; a new connection is as the project opens it."""
    vars(connection)[MARK] = False
    if _note not in connection.execute_wrappers:
        # First: Django takes off the last one where a wrapper's block ends.
        connection.execute_wrappers.insert(0, _note)


def has_changed(connection: BaseDatabaseWrapper) -> bool:
    return bool(vars(connection).get(MARK))


def _note(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
    text = sql if isinstance(sql, str) else str(sql)
    if BEGINNINGS.match(text) or any(name in text for name in FUNCTIONS):
        vars(context["connection"])[MARK] = True
    return execute(sql, params, many, context)


def discard(connection: BaseDatabaseWrapper) -> None:
    """Close it, and let the thread have a new wrapper. The old one would never connect again as
    long as a block of ``atomic()`` is open, say that of a generator which somebody keeps."""
    connection.close()
    if connections[connection.alias] is connection:
        del connections[connection.alias]
