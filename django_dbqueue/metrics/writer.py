"""What a supervisor and a reaper write for people to look at: the tally, and the backlogs."""

import logging
import random
import time
from collections.abc import Callable
from functools import partial

from django.db import connections
from django.db.utils import Error

from ..dialects import dialect_of
from ..lifecycle.table import Table
from ..worker.session import Session
from . import recorder, roll_up
from .counts import backlogs

logger = logging.getLogger("django_dbqueue")

EVERY = 60.0  # seconds between two looks at the backlogs
FIRST = 5.0


class MetricsWriter:
    """Writes now and then; whatever fails is left for another time."""

    def __init__(self, tables: list[Table], session: Session) -> None:
        self.tables = tables
        self.session = session
        # Not all workers of a host at once.
        self._sample_at = time.monotonic() + random.uniform(FIRST, 2 * FIRST)

    def turn(self) -> None:
        if not recorder.RECORDER.wait():
            self.write()
        if time.monotonic() >= self._sample_at:
            self._sample_at = time.monotonic() + EVERY
            self._sample()

    def write(self) -> None:
        self._try(recorder.RECORDER.write)

    def _sample(self) -> None:
        steps: list[Callable[[], object]] = [partial(_sample, table) for table in self.tables]
        for alias in {table.connection.alias for table in self.tables}:
            steps += [partial(roll_up.prune, alias), partial(roll_up.fold, alias)]
        for step in steps:
            if not self._try(step):
                return

    def _try(self, step: Callable[[], object]) -> bool:
        """Whether the next step may be tried: where the database is away, each had to wait for
        it."""
        try:
            self.session.prepare()
            step()
        except Error as error:
            self.session.recover(error)
            logger.debug("the minutes cannot be written for now: %s", error)
            aliases = self.session.aliases
            return not any(dialect_of(connections[alias]).error_kind(error) for alias in aliases)
        return True


def _sample(table: Table) -> None:
    """Whoever comes first in a minute counts; that two of them do is no harm."""
    alias = table.connection.alias
    if recorder.is_sampled(alias, table.job_table):
        return
    idle = dict.fromkeys(recorder.busy_lately(alias, table.job_table), 0)
    counted = backlogs(table)
    found: dict[str, int | None] = {**idle, **counted}
    if None in counted.values():  # else all queues together seemed to be what the idle ones are
        found = dict.fromkeys(found)
    if found:
        recorder.write_backlog(alias, table.job_table, found)
