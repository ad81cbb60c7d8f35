"""The databases' clock, as a test sets it."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from ..dialects import dialect_of
from ..lifecycle import process_clock


class Clock:
    """It stands still, to the microsecond, until it is told to move, forth or back."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def seconds(self) -> float:
        """Since 1970."""
        return self.now.timestamp()

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Run a statement as if it were now."""
        dialect = dialect_of(context["connection"])
        stamp = self.now.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
        instant = dialect.instant_literal.format(stamp)
        return execute(re.sub(dialect.clock_pattern, instant, sql), params, many, context)


@contextmanager
def virtual_clock(now: datetime | None = None) -> Iterator[Clock]:
    """Set the clock that our statements read on this thread's connections; it begins ``now``, an
    aware datetime, by default the present; give SQLite, whose clock ticks in milliseconds, no more
    digits.

    Other threads, other processes, Django's ``Now()`` and Python's own clock are not set; on
    PostgreSQL ``Now()`` is, which reads the clock by a function of ours.
    """
    clock = Clock(now or _present())
    with ExitStack() as stack:
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(clock))
        stack.enter_context(process_clock.reads(clock.seconds))
        yield clock


def _present() -> datetime:
    """In whole milliseconds: else what is due at this instant would be due later on SQLite."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def current_clock() -> Clock | None:
    """That of the ``virtual_clock()`` block that this is inside of."""
    wrappers = connections[DEFAULT_DB_ALIAS].execute_wrappers
    return next((one for one in wrappers if isinstance(one, Clock)), None)
