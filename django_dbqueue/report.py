"""What is in the queues at this moment, for the command line and for programs."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from .conf import conf
from .fields import DbNow
from .lifecycle.census import (
    CAP,
    MOST_QUEUES,
    Census,
    count_by_queue,
    count_queue,
    queue_names,
    ready_queues,
)
from .lifecycle.table import Table, table_of
from .models import Minute, Queue, Worker
from .states import Status
from .worker.options import all_served

# Of ready jobs the queues are found, and counted, one by one.
TOGETHER = (Status.CLAIMED, Status.DELAYED, Status.BURIED)
MOST_COUNTED = 5_000  # at once: PostgreSQL reads each of these rows
FEW = 1_000


@dataclass
class Report:
    """Counts by queue (up to ``counted_up_to``), paused (table, queue) pairs, living workers."""

    queues: list[Census] = field(default_factory=list)
    paused: list[list[str]] = field(default_factory=list)
    workers: int = 0
    counted_up_to: int = CAP


def count_together(table: Table, most: int = MOST_COUNTED) -> dict[Status, dict[str, int]]:
    """The claimed, delayed and buried jobs by state and queue, as ``count_by_queue`` does."""
    return {status: count_by_queue(table, status, most) for status in TOGETHER}


def known_queues(table: Table, counts: Mapping[Status, dict[str, int]] | None = None) -> list[str]:
    """The queues of a table that are in use, as far as is known without reading all of it: with a
    job that is not done, paused, or busy within the last week, and the one that jobs come into by
    default; where there are more than 100, some of them.

    ``counts`` are those of ``count_together``, where they are known; else of 1,000 jobs each.
    """
    alias = table.connection.alias
    counted = count_together(table, FEW) if counts is None else counts
    names = {name for by_queue in counted.values() for name in by_queue}
    default = table.model._meta.get_field("queue").get_default()
    names |= {default} if default else set()
    names |= set(islice(ready_queues(table), MOST_QUEUES + 1))
    names |= set(_queues_of_minutes(alias, table.job_table))
    wanted = Queue.objects.using(alias).filter(job_table=table.job_table, paused_until__gt=DbNow())
    names |= set(wanted.values_list("name", flat=True))
    # SQLite keeps bytes where a hand wrote them.
    return sorted(name for name in names if isinstance(name, str))


def _queues_of_minutes(alias: str, job_table: str) -> Iterator[str]:
    """By hopping: there are thousands of rows of each."""
    rows = Minute.objects.using(alias).filter(job_table=job_table).order_by("queue")
    name = rows.values_list("queue", flat=True).first()
    for _ in range(MOST_QUEUES + 1):
        if name is None:
            return
        yield name
        name = rows.filter(queue__gt=name).values_list("queue", flat=True).first()


def take_report(using: str | None = None) -> Report:
    report = Report()
    labels: dict[str, dict[str, str]] = defaultdict(dict)
    for served in all_served(using):
        table = table_of(served.model, served.using)
        report.queues += [count_queue(table, name) for name in queue_names(table)]
        labels[served.using][served.job_table] = served.label
    for alias, here in sorted(labels.items()):
        paused = Queue.objects.using(alias).filter(paused_until__gt=DbNow(), job_table__in=here)
        report.paused += [[here[queue.job_table], queue.name] for queue in paused]
        alive = Worker.objects.using(alias).alive(conf["WORKER_TIMEOUT"])
        # A reaper of its own serves nothing.
        report.workers += sum(bool(worker.serves) for worker in alive)
    return report
