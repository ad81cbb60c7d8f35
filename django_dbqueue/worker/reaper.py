"""One pass over the queue tables of some databases: promote, reap, archive, prune.

Every worker does this every second, so nobody has to watch a watcher.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import TypeVar

from django.db import connections
from django.db.utils import Error

from ..dialects import ErrorKind, dialect_of
from ..dialects.types import RowsLocked
from ..guard import capture, message_of
from ..lifecycle import archive, held, promotion, reap
from ..lifecycle.key_wakeup import wake_forgotten
from ..lifecycle.low_instants import LowInstants
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table
from ..models import Worker
from ..models.worker import KEPT
from .job_log import log_event
from .session import LOCKED_SECONDS

logger = logging.getLogger("django_dbqueue")

Tell = Callable[[Table, list[Reaped]], None]
T = TypeVar("T")
U = TypeVar("U")

CLEANUP_SECONDS = 10.0  # between looks for jobs to archive or prune, when there were none
PASS_SECONDS_MAX = 1.0  # until another pass
NEXT_DUE_SECONDS = 0.05  # after some jobs became due others soon may
WAKE_SHARE = 20.0  # times as long as a look for lost wake-ups took until the next one
NO_MOVES: tuple[float | None, float | None] = None, None

# By label, what else a queue app wants done to its table; how many rows it changed. It has to be
# quick and bounded, as the beats wait for it; after more than half of ``held.CHUNK`` rows the next
# turn comes at once.
MAINTENANCE: dict[str, Callable[[Table], int]] = {}


@dataclass
class Done:
    """How many jobs one pass moved."""

    promoted: int = 0
    reaped: int = 0
    archived: int = 0
    pruned: int = 0
    tidied: int = 0  # by MAINTENANCE

    def __add__(self, other: "Done") -> "Done":
        return Done(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __str__(self) -> str:
        parts = [f"{getattr(self, f.name)} {f.name}" for f in fields(self) if getattr(self, f.name)]
        return ", ".join(parts) or "nothing to do"


class BeatMonitor:
    """Since when each worker's beat has not changed, by this process's own clock.

    The clock of the database tells nothing about it: the nodes of a cluster, and the servers before
    and after a failover, have clocks of their own.
    """

    def __init__(self, worker_timeout: float) -> None:
        self.worker_timeout = worker_timeout
        self._seen: dict[str, dict[str, tuple[object, float]]] = {}

    def silent(self, alias: str) -> list[str]:
        """Look; those whose beat has not changed for ``worker_timeout``."""
        asked_at = time.monotonic()
        beats = Worker.objects.using(alias).beats()
        now, before = time.monotonic(), self._seen.get(alias, {})
        self._seen[alias] = seen = {
            uuid: before[uuid] if uuid in before and before[uuid][0] == beat else (beat, now)
            for uuid, beat in beats.items()
        }
        return [u for u, (_, since) in seen.items() if asked_at - since >= self.worker_timeout]


class Reaper:
    """Passes over tables; it may run many times over, nothing needs to lead."""

    def __init__(
        self,
        tables: list[Table],
        worker_timeout: float,
        tell: Tell,
        silent: Callable[[str], list[str]] | None = None,
    ) -> None:
        """``silent``: the uuids of the workers on a database that may be called dead."""
        self.tables = tables
        self.silent = silent or BeatMonitor(worker_timeout).silent
        self.worker_timeout = worker_timeout
        self.tell = tell
        self.keep_at = 0.0
        self._warned: set[tuple[str, str]] = set()
        self._locked: dict[tuple[str, str], float] = {}
        self.lows: dict[tuple[str, str], LowInstants] = defaultdict(LowInstants)
        # Of tables whose jobs may have keys: when to look next, and after which key.
        self._wake_at: dict[tuple[str, str], tuple[float, str]] = {}

    def turn(self, judge: Callable[[], bool]) -> tuple[Done, float]:
        """One pass; what it did, and how many seconds (at most 1) until a job is due.

        ``judge`` says whether claims may be ended: only by somebody who was in touch with the
        database all the time. After an outage everybody looks dead, and who lives needs a moment
        to write what became of the jobs. It is asked after each look, which may itself have been
        answered late.
        """
        done = Done()
        # Before the claims whose time is over: what nobody ran for so long is charged to none.
        silent = [
            worker
            for alias in self._aliases()
            if (found := self._silent(alias))
            for worker in Worker.objects.using(alias).filter(pk__in=found)
        ]
        if silent and judge():
            for worker in silent:
                self._reap_worker(worker, done)
        waits = [self._move(table, judge, done) for table in self.tables]
        if time.monotonic() >= self.keep_at:
            waits.append(self._clean_up(done))
        return done, min(waits, default=PASS_SECONDS_MAX)

    def _silent(self, alias: str) -> list[str]:
        """Looked at twice where a beat may not be seen yet."""
        found = self.silent(alias)
        if found and dialect_of(connections[alias]).catch_up():
            found = self.silent(alias)
        return found

    def has_suspicion(self) -> bool:
        """Whether a worker looks dead at a glance, by the database's clock, or a claim is over."""
        workers = [Worker.objects.using(alias) for alias in self._aliases()]
        return any(rows.silent(self.worker_timeout).exists() for rows in workers) or any(
            _is_over(self._alone(table, promotion.next_moves, NO_MOVES)[1]) for table in self.tables
        )

    def _move(self, table: Table, judge: Callable[[], bool], done: Done) -> float:
        """Promote what is due and end the claims whose time is over, where there are any; seconds
        until the next one."""

        def end_overdue(table: Table) -> int:
            found = reap.find_overdue(table)
            if not found or not judge():
                return 0
            reaped = reap.end_overdue(table, found)
            self.tell(table, reaped)
            return len(reaped)

        lows = self.lows[table.place]
        due, over = self._alone(table, partial(promotion.next_moves, lows=lows), NO_MOVES)
        promote = partial(promotion.promote, low=lows.delayed)
        count = self._alone(table, promote, 0) if _is_over(due) else 0
        if _is_over(over):
            done.reaped += self._alone(table, end_overdue, 0)
        done.promoted += count
        if table.takes_keys:
            self._alone(table, self._wake, None)
        if count:
            return min(_at_once(count), NEXT_DUE_SECONDS)
        return min([PASS_SECONDS_MAX, *[left for left in (due, over) if left and left > 0]])

    def _wake(self, table: Table) -> None:
        """Make up for wake-ups that were lost, once a second, less often where that takes long."""
        began = time.monotonic()
        due, after = self._wake_at.get(table.place, (0.0, ""))
        if began >= due:
            _, after = wake_forgotten(table, after)
            took = time.monotonic() - began
            self._wake_at[table.place] = began + max(PASS_SECONDS_MAX, WAKE_SHARE * took), after

    def _aliases(self) -> list[str]:
        return sorted({table.connection.alias for table in self.tables})

    def _alone(self, table: Table, step: Callable[[Table], T], otherwise: U) -> T | U:
        """One step with one table. Its error (it may not be migrated yet) is no other table's
        business, unless the connection is unfit for all."""
        if time.monotonic() < self._locked.get(table.place, 0.0):
            return otherwise
        try:
            return step(table)
        except Error as error:
            kind = table.dialect.error_kind(error)
            if kind is ErrorKind.AGAIN:
                # Somebody has locked all of it: a pass, and so the beats, cannot wait for that.
                self._locked[table.place] = time.monotonic() + LOCKED_SECONDS
            if kind in {ErrorKind.LOST, ErrorKind.READ_ONLY, ErrorKind.AGAIN}:
                raise
            self._say("the reaper leaves %s out: %s", table, str(error).strip())
            return otherwise

    def _reap_worker(self, worker: Worker, done: Done) -> None:
        """Give its claims back first: once its row says that it is gone only time ends them."""
        alias = str(worker._state.db)
        here = [table for table in self.tables if table.connection.alias == alias]
        locked = False

        def free(table: Table) -> int:
            nonlocal locked
            count = 0
            try:
                while reaped := reap.reap_owner(table, f"{worker.uuid}."):
                    self.tell(table, reaped)
                    count += len(reaped)
            except RowsLocked as error:
                locked = True
                logger.info("%s", error)
            return count

        # None: the table was left out, hence holds its claims still.
        counts = {table.label: self._alone(table, free, None) for table in here}
        count = sum(filter(None, counts.values()))
        done.reaped += count
        served = worker.served_tables()
        missing = served - counts.keys()
        is_left = bool(missing) or any(counts[label] is None for label in served & counts.keys())
        if locked or (is_left and self._leave_to_others(worker, missing)):
            return
        if worker.uuid in self.silent(alias):
            Worker.objects.using(alias).filter(pk=worker.pk).sign_off(
                f"no beat for {self.worker_timeout:g} s: taken for dead"
            )
        message = "worker %s is gone: %d jobs run again elsewhere"
        name = worker.uuid[:8]
        log_event(logging.WARNING, "worker.gone", message, worker, count, worker=name)

    def _leave_to_others(self, worker: Worker, missing: set[str]) -> bool:
        """Its claims on what is not installed here, or was left out, are for another project or
        another pass to reap; whether there is still hope, after an hour their time ends them."""
        alias = str(worker._state.db)
        if Worker.objects.using(alias).silent(KEPT).filter(pk=worker.pk).exists():
            return False
        if missing and (alias, worker.uuid) not in self._warned:
            self._warned.add((alias, worker.uuid))
            tables = ", ".join(sorted(missing))
            logger.warning(
                "worker %s is gone; %s: not looked after here, left to others", worker, tables
            )
        return True

    def _do_maintenance(self, table: Table) -> int:
        """Whatever it raises, the next table has its turn, and the beats go on."""
        hook = MAINTENANCE.get(table.label)
        if hook is None:
            return 0
        count = 0
        with capture() as outcome:
            count = hook(table)
        if isinstance(outcome.error, Error):
            raise outcome.error
        if outcome.error is not None:
            why = f"{type(outcome.error).__name__}: {message_of(outcome.error)}"
            self._say("the maintenance of %s failed: %s", table, why)
        return count

    def _say(self, message: str, table: Table, why: str) -> None:
        """A warning the first time, at level DEBUG from then on."""
        level = logging.DEBUG if table.place in self._warned else logging.WARNING
        self._warned.add(table.place)
        logger.log(level, message, table.label, why)

    def _clean_up(self, done: Done) -> float:
        """Archive, prune and maintain; seconds until another pass."""
        most = 0
        for alias in self._aliases():
            Worker.objects.using(alias).long_gone().delete()
        for table in self.tables:
            lows = self.lows[table.place]
            archived = self._alone(table, partial(archive.archive, low=lows.finished), 0)
            pruned = self._alone(table, partial(archive.prune, lows=lows), 0)
            tidied = self._alone(table, self._do_maintenance, 0)
            done.archived += archived
            done.pruned += pruned
            done.tidied += tidied
            most = max(most, archived, pruned, tidied)
        if not most:
            self.keep_at = time.monotonic() + CLEANUP_SECONDS
        return _at_once(most)


def _at_once(count: int) -> float:
    """No wait after a chunk that was full, or would have been without a few locked rows."""
    return 0.0 if count > held.CHUNK // 2 else PASS_SECONDS_MAX


def _is_over(seconds: float | None) -> bool:
    return seconds is not None and seconds <= 0
