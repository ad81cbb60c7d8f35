"""How many jobs wait, noted once a minute by a process that works on a database, as they were last
counted."""

import logging
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import Q
from django.db.utils import Error

from ..fields import check_name
from ..lifecycle.execute import in_transaction
from ..lifecycle.table import Table
from ..models import Minute
from ..models.minute import SUMS
from ..worker import background
from . import roll_up
from .counts import QUEUES_MAX
from .numbers import backlogs
from .recorder import this_minute

logger = logging.getLogger("django_dbqueue")

SAMPLE_SECONDS = 60.0  # between two looks at the backlogs
FIRST_SAMPLE = 5.0  # seconds
COUNTED_WITHIN = 300.0  # seconds; of a count that is older nothing is noted


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
        alias = self.tables[0].connection.alias
        sample = partial(sample_backlogs, self.tables)
        for step in (sample, partial(roll_up.prune, alias), partial(roll_up.fold, alias)):
            try:
                step()
            except Error as error:
                if self.tables[0].dialect.error_kind(error):
                    raise
                logger.debug("the minutes cannot be written for now: %s", error)


def sample_backlogs(tables: Sequence[Table]) -> None:
    """Note what waits in the 100 queues of each table with most jobs; the first one in a minute
    does, and that two of them do is no harm. The tables are those of one database."""
    alias = tables[0].connection.alias
    wanted = {table.job_table for table in tables} - sampled(alias)
    counted = backlogs(alias, wanted, COUNTED_WITHIN)
    for job_table, queue in busy_lately(alias) if counted else ():
        if job_table in counted:
            counted[job_table].setdefault(queue, 0)
    for job_table, jobs in counted.items():
        if jobs:
            write_backlog(alias, job_table, dict(jobs.most_common(QUEUES_MAX)))


def sampled(alias: str) -> set[str]:
    """The queue tables whose backlog somebody has noted in this minute."""
    rows = Minute.objects.using(alias).filter(minute=this_minute(alias), backlog__isnull=False)
    return set(rows.values_list("job_table", flat=True).distinct())


def busy_lately(alias: str) -> set[tuple[str, str]]:
    """The queue tables and queues in which something happened, or waited, in the last hour; that
    somebody looked and found nothing is neither."""
    busy = Q(*((f"{name}__gt", 0) for name in (*SUMS, "backlog")), _connector=Q.OR)
    lately = Minute.objects.using(alias).filter(busy, minute__gt=this_minute(alias) - 60)
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
