"""Rows that a queue table has gathered in time, and that no worker here touches."""

from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.states import Status

WANTED = {Status.DONE: 1_000_000, Status.DELAYED: 100_000, Status.READY: 100_000}
FIRST = 1000  # rows of each kind that are made; the others are copies
OTHER = "another"  # the queue of all of them


def add_ballast(table: Any) -> None:
    """So many rows of each kind, unless they are there already; their numbers are below 0."""
    for status, wanted in WANTED.items():
        count = table.objects.filter(number=number_of(status)).count()
        if not count:
            make(table, status)
            count = FIRST
        copy(table, number_of(status), count, wanted)


def number_of(status: Status) -> int:
    return -1 - status


def make(table: Any, status: Status) -> None:
    tomorrow = timezone.now() + timedelta(days=1)
    due = {"retry_at": tomorrow} if status == Status.DELAYED else {}
    row = {"number": number_of(status), "queue": OTHER, **due}
    table.objects.bulk_create([table(**row) for _ in range(FIRST)])
    if status == Status.DONE:
        # Past the manager, which would not let anybody write these columns.
        rows: QuerySet[Any] = QuerySet(table).filter(number=number_of(status))
        rows.update(status=Status.DONE, finished_at=timezone.now())


def copy(table: Any, number: int, count: int, wanted: int) -> None:
    meta = table._meta
    names = ", ".join(str(f.column) for f in meta.concrete_fields if not f.primary_key)
    with connection.cursor() as cursor:
        while count < wanted:
            more = min(count, wanted - count)
            cursor.execute(
                f"INSERT INTO {meta.db_table} ({names}) SELECT {names} FROM {meta.db_table} "
                f"WHERE number = %s LIMIT {more}",
                [number],
            )
            count += more
