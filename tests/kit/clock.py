"""The virtual clock, for tests of the package itself: no statement of ours asks another one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from django_dbqueue.testing import Clock, virtual_clock

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
