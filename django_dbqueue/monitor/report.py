"""Which queues a table has, and what is in them, by looks that are bounded."""

from collections.abc import Iterator, Mapping

from ..fields import DbNow
from ..lifecycle.ready_queues import ready_queues
from ..lifecycle.table import Table
from ..metrics.counts import QUEUES_MAX, count_by_queue
from ..models import Minute, Queue
from ..models.queue import ALL
from ..states import Status

# Of ready jobs the queues are found, and counted, one by one.
TOGETHER = (Status.CLAIMED, Status.DELAYED, Status.BURIED)
COUNTED_MAX = 1_000  # jobs at once: PostgreSQL reads each of these rows
GLANCE_MAX = 200  # jobs whose queues are looked at


def count_together(table: Table, most: int = COUNTED_MAX) -> dict[Status, dict[str, int]]:
    """The claimed, delayed and buried jobs by state and queue, as ``count_by_queue`` does."""
    return {status: count_by_queue(table, status, most) for status in TOGETHER}


def known_queues(table: Table, counts: Mapping[Status, dict[str, int]] | None = None) -> list[str]:
    """The queues of a table that are in use, as far as is known without reading all of it: with a
    job that is not done, paused, or busy within the last week, and the one that jobs come into by
    default; where there are more than 100, some of them.

    ``counts`` are those of ``count_together``, where they are known; else of 200 jobs each.
    """
    alias = table.connection.alias
    counted = count_together(table, GLANCE_MAX) if counts is None else counts
    names = {name for by_queue in counted.values() for name in by_queue}
    default = table.model._meta.get_field("queue").get_default()
    names |= {default} if default else set()
    names |= {str(name) for name in ready_queues(table, QUEUES_MAX + 1)}
    names |= set(_queues_of_minutes(alias, table.job_table))
    wanted = Queue.objects.using(alias).filter(job_table=table.job_table, paused_until__gt=DbNow())
    names |= set(wanted.exclude(name=ALL).values_list("name", flat=True))
    # SQLite keeps bytes where a hand wrote them.
    return sorted(name for name in names if isinstance(name, str))


def _queues_of_minutes(alias: str, job_table: str) -> Iterator[str]:
    """By hopping: there are thousands of rows of each."""
    rows = Minute.objects.using(alias).filter(job_table=job_table).order_by("queue")
    name = rows.values_list("queue", flat=True).first()
    for _ in range(QUEUES_MAX + 1):
        if name is None:
            return
        yield name
        name = rows.filter(queue__gt=name).values_list("queue", flat=True).first()
