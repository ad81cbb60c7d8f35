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
    ``noted``: as ``noted_queues`` has them of this table, where somebody has asked for all.
    """
    if found is None:
        looks = (count_by_queue(table, status, GLANCE_MAX) for status in TOGETHER)
        found = {name for by_queue in looks for name in by_queue}
    if noted is None:
        noted = noted_queues(table.connection.alias, table.job_table).get(table.job_table, ())
    names = {*found, *noted}
    default = table.model._meta.get_field("queue").get_default()
    names |= {default} if default else set()
    names |= {str(name) for name in ready_queues(table, QUEUES_MAX + 1)}
    # SQLite keeps bytes where a hand wrote them.
    return sorted(name for name in names if isinstance(name, str))


def noted_queues(alias: str, job_table: str | None = None) -> defaultdict[str, set[str]]:
    """By queue table, or of one alone, the queues that are paused or were busy within a week."""
    minutes = Minute.objects.using(alias)
    paused = Queue.objects.using(alias).filter(paused_until__gt=DbNow()).exclude(name=ALL)
    noted = defaultdict[str, set[str]](set)
    if job_table is None:
        job_tables = _hop(minutes, "job_table")
    else:
        job_tables, paused = iter([job_table]), paused.filter(job_table=job_table)
    for name in job_tables:
        queues = _hop(minutes.filter(job_table=name), "queue")
        noted[name] |= set(islice(queues, QUEUES_MAX + 1))
    for name, queue in paused.values_list("job_table", "name"):
        noted[name].add(queue)
    return noted


def _hop(rows: QuerySet[Minute], column: str) -> Iterator[str]:
    """The values of a column, one by one: there are thousands of rows of each."""
    values = rows.order_by(column).values_list(column, flat=True)
    value = values.first()
    while value is not None:
        yield value
        value = values.filter(**{f"{column}__gt": value}).first()
