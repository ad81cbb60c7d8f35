"""How many jobs wait, noted once a minute by a process that works on a database, as they were last
counted."""

import logging
import random
import time
from collections.abc import Sequence
from functools import partial

from django.db.utils import Error

from ..lifecycle.table import Table
from ..worker import background
from . import recorder, roll_up
from .counts import QUEUES_MAX
from .numbers import backlogs

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
        for step in (self._sample, partial(roll_up.prune, alias), partial(roll_up.fold, alias)):
            try:
                step()
            except Error as error:
                if self.tables[0].dialect.error_kind(error):
                    raise
                logger.debug("the minutes cannot be written for now: %s", error)

    def _sample(self) -> None:
        sample_backlogs(self.tables)


def sample_backlogs(tables: Sequence[Table]) -> None:
    """Note what waits in the 100 queues of each table with most jobs; the first one in a minute
    does, and that two of them do is no harm. The tables are those of one database."""
    alias = tables[0].connection.alias
    wanted = {table.job_table for table in tables} - recorder.sampled(alias)
    counted = backlogs(alias, wanted, COUNTED_WITHIN)
    for job_table, queue in recorder.busy_lately(alias) if counted else ():
        if job_table in counted:
            counted[job_table].setdefault(queue, 0)
    for job_table, jobs in counted.items():
        if jobs:
            recorder.write_backlog(alias, job_table, dict(jobs.most_common(QUEUES_MAX)))
