"""Which queues a table has, and what is in them, by looks that are bounded."""

from collections.abc import Collection, Iterator

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


def known_queues(table: Table, found: Collection[str] | None = None) -> list[str]:
    """The queues of a table that are in use, as far as is known without reading all of it: with a
    job that is not done, paused, or busy within the last week, and the one that jobs come into by
    default; where there are more than 100, some of them.

    ``found``: those that have jobs, where they are known; else 200 of each state are looked at.
    """
    alias = table.connection.alias
    if found is None:
        looks = (count_by_queue(table, status, GLANCE_MAX) for status in TOGETHER)
        found = {name for by_queue in looks for name in by_queue}
    names = set(found)
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
