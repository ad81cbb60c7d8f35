"""The virtual clock, for tests of the package itself: no statement of ours asks another one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.test import override_settings

from django_dbqueue.testing import Clock, virtual_clock
from tests.kit.jobs import forget_tables

START = datetime(2031, 5, 5, 5, 5, 5, tzinfo=UTC)
# Another zone's clocks, or that of a transaction's start, or what the virtual one missed.
FOREIGN = re.compile(
    r"\b(NOW\(|SYSDATE|CURRENT_TIMESTAMP|LOCALTIME|UTC_TIMESTAMP|CLOCK_TIMESTAMP"
    r"|STATEMENT_TIMESTAMP|TRANSACTION_TIMESTAMP|UNIX_TIMESTAMP)|'now'",
    re.IGNORECASE,
)


def refuse_other_clocks(execute: Any, sql: str, *rest: Any) -> Any:
    assert not FOREIGN.search(sql), f"another clock is asked: {sql}"
    return execute(sql, *rest)


@contextmanager
def only_virtual_clock(now: datetime = START) -> Iterator[Clock]:
    with virtual_clock(now) as clock, connection.execute_wrapper(refuse_other_clocks):
        yield clock


@contextmanager
def without_use_tz(zone: str) -> Iterator[None]:
    """A project whose times are naive, in a zone."""
    forget_tables()
    try:
        with override_settings(USE_TZ=False, TIME_ZONE=zone):
            yield
    finally:
        forget_tables()
