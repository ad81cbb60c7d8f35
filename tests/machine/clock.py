"""A database's clock that the test sets: every statement on a connection reads it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

START = datetime(2031, 5, 5, 5, 5, 5, tzinfo=UTC)
# How each database is asked for the time, and how it writes an instant.
ASKED = {
    "mysql": r"UTC_TIMESTAMP\(6\)",
    "postgresql": r"CLOCK_TIMESTAMP\(\)|STATEMENT_TIMESTAMP\(\)",
    "sqlite": r"'now'",
}
INSTANT = {
    "mysql": "TIMESTAMP'{}'",
    "postgresql": "TIMESTAMPTZ '{}+00'",
    "sqlite": "'{}'",
}
# Clocks that nobody may ask: another zone's, or that of a transaction's start.
FOREIGN = re.compile(
    r"\b(NOW\(|SYSDATE|CURRENT_TIMESTAMP|LOCALTIME|UTC_TIMESTAMP|CLOCK_TIMESTAMP"
    r"|STATEMENT_TIMESTAMP|TRANSACTION_TIMESTAMP|UNIX_TIMESTAMP)|'now'",
    re.IGNORECASE,
)


class Clock:
    """It stands still, to the microsecond, until it is told to move, forth or back."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now
        self._asked = re.compile(ASKED[connection.vendor])

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Run a statement as if it were now."""
        stamp = self.now.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
        told = self._asked.sub(INSTANT[connection.vendor].format(stamp), sql)
        assert not FOREIGN.search(told), f"another clock is asked: {told}"
        return execute(told, params, many, context)


@contextmanager
def virtual_clock(now: datetime = START) -> Iterator[Clock]:
    """The clock of this thread's connection to the test database."""
    clock = Clock(now)
    with connection.execute_wrapper(clock):
        yield clock
