"""One pass over the queue tables of some databases: promote, reap, archive, prune.

Every worker does this every second, so nobody has to watch a watcher.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from django.db.utils import Error

from .dialects import Trouble
from .dialects.base import RowsLocked
from .fields import DbNow
from .lifecycle import keep, reap
from .lifecycle.table import Table
from .models import Worker

logger = logging.getLogger("django_dbqueue")

KEEP_EVERY = 10.0  # seconds between looks for jobs to archive or prune, when there were none
IDLE = 1.0


@dataclass
class Done:
    """How many jobs one pass moved."""

    promoted: int = 0
    reaped: int = 0
    archived: int = 0
    pruned: int = 0

    def __str__(self) -> str:
        parts = [f"{getattr(self, f.name)} {f.name}" for f in fields(self) if getattr(self, f.name)]
        return ", ".join(parts) or "nothing to do"


class Reaper:
    """Passes over tables; it may run many times over, nothing needs to lead."""

    def __init__(self, tables: list[Table], worker_timeout: float) -> None:
        self.tables = tables
        self.worker_timeout = worker_timeout
        self._keep_at = 0.0
        self._warned: set[tuple[str, str]] = set()

    def turn(self, *, judge: bool) -> tuple[Done, float]:
        """One pass; what it did, and how many seconds (at most 1) until a job is due.

        ``judge`` says whether workers without a beat may be called dead: only by somebody who
        was in touch with the database all the time, else after an outage everybody looks dead.
        """
        done = Done()
        waits = [self._promote(table, done) for table in self.tables]
        for table in self.tables:
            done.reaped += self._alone(table, reap.reap_overdue)
        if judge:
            self.reap_dead_workers(done)
        if time.monotonic() >= self._keep_at:
            waits.append(self._keep(done))
        return done, min(waits, default=IDLE)

    def dead_workers(self) -> list[Worker]:
        """Workers that have not beaten for ``worker_timeout``."""
        silent = DbNow(plus=-self.worker_timeout)
        return [
            worker
            for alias in sorted({table.connection.alias for table in self.tables})
            for worker in Worker.objects.using(alias).filter(beat_at__lt=silent)
        ]

    def reap_dead_workers(self, done: Done) -> None:
        for worker in self.dead_workers():
            self._reap_worker(worker, done)

    def _alone(self, table: Table, step: Callable[[Table], int]) -> int:
        """One step with one table. Its error (it may not be migrated yet) is no other table's
        business, unless the connection is unfit for all."""
        try:
            return step(table)
        except Error as error:
            if table.dialect.trouble(error) in {Trouble.LOST, Trouble.READ_ONLY}:
                raise
            name = table.connection.alias, table.label
            level = logging.DEBUG if name in self._warned else logging.WARNING
            self._warned.add(name)
            logger.log(level, "the reaper leaves %s out: %s", table.label, str(error).strip())
            return 0

    def _promote(self, table: Table, done: Done) -> float:
        wait = IDLE

        def promote(table: Table) -> int:
            nonlocal wait
            due = reap.next_due(table)
            if due is None or due > 0:
                wait = min(IDLE, due or IDLE)
                return 0
            return reap.promote(table)

        count = self._alone(table, promote)
        done.promoted += count
        return _at_once(count) if count else wait

    def _reap_worker(self, worker: Worker, done: Done) -> None:
        """Give its claims back first: once its row is gone only time would end them."""
        alias = worker._state.db
        count, locked = 0, False

        def free(table: Table) -> int:
            nonlocal count, locked
            try:
                while reaped := reap.reap_owner(table, f"{worker.uuid}."):
                    count += reaped
            except RowsLocked as error:
                locked = True
                logger.info("%s", error)
            return 0

        for table in self.tables:
            if table.connection.alias == alias:
                self._alone(table, free)
        done.reaped += count
        if locked:
            return
        silent = DbNow(plus=-self.worker_timeout)
        Worker.objects.using(alias).filter(pk=worker.uuid, beat_at__lt=silent).delete()
        logger.warning("worker %s is gone: %d jobs run again elsewhere", worker, count)

    def _keep(self, done: Done) -> float:
        most = 0
        for table in self.tables:
            archived, pruned = self._alone(table, keep.archive), self._alone(table, keep.prune)
            done.archived += archived
            done.pruned += pruned
            most = max(most, archived, pruned)
        if not most:
            self._keep_at = time.monotonic() + KEEP_EVERY
        return _at_once(most)


def _at_once(count: int) -> float:
    """No wait after a chunk that was full, or would have been without a few locked rows."""
    return 0.0 if count > reap.CHUNK // 2 else IDLE
