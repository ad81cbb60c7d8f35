"""How many jobs wait, noted once a minute by a process that works on a database, as they were last
counted."""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
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
        for table in self.tables:
            _try(table, partial(sample_backlogs, table))
        for table in {one.connection.alias: one for one in self.tables}.values():
            alias = table.connection.alias
            _try(table, partial(roll_up.prune, alias))
            _try(table, partial(roll_up.fold, alias))


def _try(table: Table, step: Callable[[], object]) -> None:
    try:
        step()
    except Error as error:
        if table.dialect.error_kind(error):
            raise
        logger.debug("the minutes cannot be written for now: %s", error)


def sample_backlogs(table: Table) -> None:
    """Note what waits in the 100 queues with most jobs; the first one in a minute does, and that
    two of them do is no harm."""
    alias = table.connection.alias
    if recorder.is_sampled(alias, table.job_table):
        return
    counted = backlogs(table, COUNTED_WITHIN)
    if counted is None:
        return
    idle = dict.fromkeys(recorder.busy_lately(alias, table.job_table), 0)
    found = Counter({**idle, **counted}).most_common(QUEUES_MAX)
    if found:
        recorder.write_backlog(alias, table.job_table, dict(found))
