"""One pass over the queue tables of some databases: promote, reap, archive, prune.

Every worker does this every second, so nobody has to watch a watcher.
"""

import logging
import time
from dataclasses import dataclass, fields

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

    def turn(self, *, judge: bool) -> tuple[Done, float]:
        """One pass; what it did, and how many seconds (at most 1) until a job is due.

        ``judge`` says whether workers without a beat may be called dead: only by somebody who
        was in touch with the database all the time, else after an outage everybody looks dead.
        """
        done = Done()
        wait = min([self._promote(table, done) for table in self.tables], default=IDLE)
        for table in self.tables:
            done.reaped += reap.reap_overdue(table)
        if judge:
            self.reap_dead_workers(done)
        if time.monotonic() >= self._keep_at:
            self._keep(done)
        return done, wait

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

    def _promote(self, table: Table, done: Done) -> float:
        wait = reap.next_due(table)
        if wait is None or wait > 0:
            return min(IDLE, wait or IDLE)
        count = reap.promote(table)
        done.promoted += count
        return 0.0 if count == reap.CHUNK else IDLE

    def _reap_worker(self, worker: Worker, done: Done) -> None:
        """Give its claims back first: once its row is gone only time would end them."""
        alias = worker._state.db
        count = 0
        for table in self.tables:
            if table.connection.alias == alias:
                while reaped := reap.reap_owner(table, f"{worker.uuid}."):
                    count += reaped
        silent = DbNow(plus=-self.worker_timeout)
        Worker.objects.using(alias).filter(pk=worker.uuid, beat_at__lt=silent).delete()
        logger.warning("worker %s is gone: %d jobs run again elsewhere", worker, count)
        done.reaped += count

    def _keep(self, done: Done) -> None:
        for table in self.tables:
            done.archived += keep.archive(table)
            done.pruned += keep.prune(table)
        if not done.archived and not done.pruned:
            self._keep_at = time.monotonic() + KEEP_EVERY
