"""How many jobs wait, noted once a minute by a process that works on a database, as they were last
counted."""

import logging
import random
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import Q
from django.db.utils import Error

from ..fields import check_name
from ..lifecycle.execute import in_transaction
from ..lifecycle.table import Table
from ..models import Minute, QueueCount, TableCount
from ..models.archived import UNENDED
from ..models.minute import SUMS
from ..models.total import OTHERS
from ..worker import background
from . import roll_up
from .counting import OPEN, PAUSE_OF_FEW_MAX, age_of, seconds_since
from .counts import QUEUES_MAX
from .recorder import this_minute

logger = logging.getLogger("django_dbqueue")

SAMPLE_SECONDS = 60.0  # between two looks at the backlogs
FIRST_SAMPLE = 5.0  # seconds
COUNTED_WITHIN = 2 * PAUSE_OF_FEW_MAX  # seconds; of a count that is older nothing is noted
TABLES_MAX = 100  # whose counts are looked at together


def subscribe() -> None:
    """From here on every agent has a sampler."""
    if BacklogSampler not in background.TABLE_WRITERS:
        background.TABLE_WRITERS.append(BacklogSampler)


class BacklogSampler:
    """Writes how many jobs wait in these tables, and tidies up the minutes of long ago."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tables
        # Not all workers of a host at once.
        first = random.uniform(FIRST_SAMPLE, 2 * FIRST_SAMPLE)
        self._sample_at = time.monotonic() + first

    def due_in(self) -> float:
        return max(0.0, self._sample_at - time.monotonic())

    def write(self) -> None:
        """``Error`` where the database is away: then each step would have to wait for it."""
        self._sample_at = time.monotonic() + SAMPLE_SECONDS
        if not self.tables:
            return
        table = self.tables[0]
        alias = table.connection.alias
        sample = partial(sample_backlogs, self.tables)
        for step in (sample, partial(roll_up.prune, alias), partial(roll_up.fold, alias)):
            with _unless_away(table):
                step()


@contextmanager
def _unless_away(table: Table) -> Iterator[None]:
    """Whatever else goes wrong is left for another time: other steps may work."""
    try:
        yield
    except Error as error:
        if table.dialect.error_kind(error):
            raise
        logger.debug("the minutes cannot be written for now: %s", error)


def sample_backlogs(tables: Sequence[Table]) -> None:
    """Note what waits in each of these tables of one database, in its 100 queues with most jobs.

    The first process in a minute does; that two do is no harm.
    """
    alias = tables[0].connection.alias
    wanted = sorted({table.job_table for table in tables} - sampled(alias))
    busy = busy_lately(alias) if wanted else set()
    for start in range(0, len(wanted), TABLES_MAX):
        counted = last_counted(alias, wanted[start : start + TABLES_MAX])
        for job_table, queue in busy:
            if job_table in counted:
                counted[job_table].setdefault(queue, 0)
        for job_table, jobs in counted.items():
            if jobs:
                with _unless_away(tables[0]):
                    write_backlog(alias, job_table, dict(jobs.most_common(QUEUES_MAX)))


def sampled(alias: str) -> set[str]:
    """The queue tables whose backlog somebody has noted in this minute."""
    rows = Minute.objects.using(alias).filter(minute=this_minute(alias), backlog__isnull=False)
    return set(rows.values_list("job_table", flat=True).distinct())


def last_counted(alias: str, job_tables: Collection[str]) -> dict[str, Counter[str]]:
    """How many jobs of each queue had neither ended nor been buried at the last count, by queue
    table; without those that were not counted for long."""
    counts = TableCount.objects.using(alias).filter(job_table__in=job_tables, part=OPEN)
    counts = counts.annotate(age=seconds_since(alias, "counted_at"))
    found = {
        name: Counter[str]()
        for name, seconds in counts.values_list("job_table", "age")
        if (age := age_of(seconds)) is not None and age <= COUNTED_WITHIN
    }
    rows = QueueCount.objects.using(alias).filter(job_table__in=[*found], status__in=UNENDED)
    for name, queue, jobs in rows.values_list("job_table", "queue", "jobs"):
        if queue != OTHERS and name in found:  # whose name may differ in its case
            found[name][queue] += jobs
    return found


def busy_lately(alias: str) -> set[tuple[str, str]]:
    """The queue tables and queues in which something happened, or waited, in the last hour; that
    somebody looked and found nothing is neither."""
    busy = Q(*((f"{name}__gt", 0) for name in (*SUMS, "backlog")), _connector=Q.OR)
    first = this_minute(alias) - 59
    # With both ends SQLite uses the index of minutes, whether it has statistics or not.
    lately = Minute.objects.using(alias).filter(busy, minute__gte=first, minute__lt=first + 60)
    return set(lately.values_list("job_table", "queue").distinct())


def write_backlog(alias: str, job_table: str, by_queue: Mapping[str, int]) -> None:
    """Note how many jobs of each queue are neither done nor buried."""
    minute, rows = this_minute(alias), Minute.objects.using(alias)
    named = {}
    for queue, backlog in by_queue.items():
        with suppress(ValidationError):  # a hand may have written anything into the table
            check_name(queue, "queue")
            named[str(queue)] = backlog
    fresh = [Minute(job_table=job_table, queue=queue, minute=minute) for queue in named]
    rows.bulk_create(fresh, ignore_conflicts=True)
    written = list(rows.filter(job_table=job_table, queue__in=named, minute=minute).only("queue"))
    for row in written:
        row.backlog = named[row.queue]
    in_transaction(connections[alias], partial(rows.bulk_update, written, ["backlog"]))
