"""Which queues a table has, and what is in them, by looks that are bounded."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import islice

from django.db.models import QuerySet

from ..fields import DbNow
from ..lifecycle.ready_queues import ready_queues
from ..lifecycle.table import Table
from ..metrics.counts import QUEUES_MAX, count_by_queue
from ..models import Minute, Queue
from ..models.queue import ALL
from ..states import Status

# Of ready jobs the queues are found one by one.
TOGETHER = (Status.CLAIMED, Status.DELAYED, Status.BURIED)
GLANCE_MAX = 200  # jobs whose queues are looked at


def known_queues(
    table: Table, found: Collection[str] | None = None, noted: Collection[str] | None = None
) -> list[str]:
    """The queues of a table that are in use, as far as is known without reading all of it: with a
    job that is not done, paused, or busy within the last week, and the one that jobs come into by
    default; where there are more than 100, some of them.

    ``found``: those that have jobs, where they are known; else 200 of each state are looked at.
    ``noted``: those that are paused or were busy, where they are known.
    """
    if found is None:
        looks = (count_by_queue(table, status, GLANCE_MAX) for status in TOGETHER)
        found = {name for by_queue in looks for name in by_queue}
    if noted is None:
        noted = _noted_queues(table.connection.alias, table.job_table)
    names = {*found, *noted}
    default = table.model._meta.get_field("queue").get_default()
    names |= {default} if default else set()
    names |= {str(name) for name in ready_queues(table, QUEUES_MAX + 1)}
    # SQLite keeps bytes where a hand wrote them.
    return sorted(name for name in names if isinstance(name, str))


def _noted_queues(alias: str, job_table: str) -> set[str]:
    paused = Queue.objects.using(alias).filter(job_table=job_table, paused_until__gt=DbNow())
    names = set(paused.exclude(name=ALL).values_list("name", flat=True))
    return names | busy_queues(alias, [job_table])[job_table]


def busy_queues(alias: str, job_tables: Collection[str]) -> defaultdict[str, set[str]]:
    """By queue table, the queues that were busy within the last week."""
    minutes = Minute.objects.using(alias)
    found = defaultdict[str, set[str]](set)
    # Most of many tables have no minutes.
    tables = job_tables if len(job_tables) == 1 else _hop(minutes, "job_table")
    for name in tables:
        if name in job_tables:
            queues = _hop(minutes.filter(job_table=name), "queue")
            found[name] = set(islice(queues, QUEUES_MAX + 1))
    return found


def _hop(rows: QuerySet[Minute], column: str) -> Iterator[str]:
    """The values of a column, one by one: there are thousands of rows of each. Bytes that a hand
    wrote come last on SQLite, where no text is greater."""
    values = rows.order_by(column).values_list(column, flat=True)
    value = values.first()
    while isinstance(value, str):
        yield value
        value = values.filter(**{f"{column}__gt": value}).first()
