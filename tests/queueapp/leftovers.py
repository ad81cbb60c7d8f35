"""What jobs may leave behind on their thread's connection."""

from collections.abc import Iterator
from typing import Any

from django.db import connection, transaction

from .faults import record

# Somebody keeps them, as a traceback, a cache or a cycle of references does.
KEPT: list[Iterator[None]] = []


def in_a_transaction() -> Iterator[None]:
    with transaction.atomic():
        yield


def leave_open(_job: Any) -> None:
    KEPT.append(in_a_transaction())
    next(KEPT[-1])


def leave_open_and_fail(job: Any) -> None:
    leave_open(job)
    raise RuntimeError("in the middle")


def leave_autocommit_off(_job: Any) -> None:
    connection.set_autocommit(False)


def execute(job: Any) -> None:
    """Its text; the first value of the answer goes into its log."""
    with connection.cursor() as cursor:
        cursor.execute(job.text)
        if cursor.description:
            record(job.log, cursor.fetchone()[0])
