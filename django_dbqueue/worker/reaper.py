"""One pass over the queue tables of some databases: promote, reap, archive, prune.

Every worker does this every second, so nobody has to watch a watcher.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from django.db import connections
from django.db.utils import Error

from ..dialects import ErrorKind, dialect_of
from ..dialects.types import RowsLocked
from ..guard import capture, message_of
from ..lifecycle import archive, held, many_tables, promotion, reap
from ..lifecycle.key_wakeup import wake_forgotten
from ..lifecycle.low_instants import LowInstants
from ..lifecycle.promotion import Moves
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table
from ..models import Worker
from ..models.worker import KEPT
from .beat_monitor import BeatMonitor
from .done import Done
from .job_log import log_event
from .joint_look import JointLook
from .session import LOCKED_SECONDS

logger = logging.getLogger("django_dbqueue")

Tell = Callable[[Table, list[Reaped]], None]
T = TypeVar("T")
U = TypeVar("U")

CLEANUP_SECONDS = 10.0  # between looks for jobs to archive or prune, when there were none
CLEANUP_SECONDS_MAX = 60.0  # the same, where there are many tables
CLEANUPS = 10.0  # tables that may be looked at in CLEANUP_SECONDS
PASS_SECONDS_MAX = 1.0  # until another pass
NEXT_DUE_SECONDS = 0.05  # after some jobs became due others soon may
WAKE_SHARE = 20.0  # times as long as a look for lost wake-ups took until the next one
NO_MOVES: Moves = None, None

# By label, what else a queue app wants done to its table; how many rows it changed. It has to be
# quick and bounded, as the beats wait for it; after more than half of ``held.CHUNK`` rows the next
# turn comes at once.
MAINTENANCE: dict[str, Callable[[Table], int]] = {}


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
        # When to clean up next, by the place of a table, and by a database for its workers.
        self.clean_at: dict[tuple[str, str], float] = {}
        self._joint_look = JointLook()
        self._unread: set[tuple[str, str]] = set()  # tables that could not be looked at
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
        try:
            return self._turn(judge)
        except Error:
            # What was found may not have been moved; after a failover what was moved may be back.
            for lows in self.lows.values():
                lows.forget()
            raise

    def _turn(self, judge: Callable[[], bool]) -> tuple[Done, float]:
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
        known = self._look_together()
        waits = [self._move(table, judge, done, known.get(table.place)) for table in self.tables]
        waits.append(self._clean_up(done))
        return done, min(waits)

    def _look_together(self) -> dict[tuple[str, str], Moves]:
        """When the next rows move, of all tables that no trouble and no low-water mark is known
        of."""
        now = time.monotonic()
        tables = [
            table
            for table in self.tables
            if table.place not in self._unread
            and now >= self._locked.get(table.place, 0.0)
            and not self.lows[table.place].are_in_force
        ]
        return self._joint_look.at(tables, many_tables.next_moves)

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

    def _move(
        self, table: Table, judge: Callable[[], bool], done: Done, known: Moves | None
    ) -> float:
        """Promote what is due and end the claims whose time is over, where there are any; seconds
        until the next one. ``known``: when that is, if it was looked at."""

        def end_overdue(table: Table) -> int:
            found = reap.find_overdue(table)
            if not found or not judge():
                return 0
            reaped = reap.end_overdue(table, found)
            self.tell(table, reaped)
            return len(reaped)

        lows = self.lows[table.place]
        if known is None:
            known = self._alone(table, partial(promotion.next_moves, lows=lows), None)
            (self._unread.add if known is None else self._unread.discard)(table.place)
        due, over = known or NO_MOVES
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

        # None: the table was left out, so it holds its claims still.
        counts = {table.label: self._alone(table, free, None) for table in here}
        count = sum(filter(None, counts.values()))
        done.reaped += count
        served = worker.served_tables()
        missing = served - counts.keys()
        is_left = bool(missing) or any(counts[label] is None for label in served & counts.keys())
        if locked or (is_left and self._leave_to_others(worker, missing)):
            return
        if worker.uuid in self.silent(alias):
            row = Worker.objects.using(alias).filter(pk=worker.pk)
            row.sign_off_silent(self.worker_timeout)
        message = "worker %s is gone; jobs that run again elsewhere: %d"
        log_event(logging.WARNING, "worker.gone", message, worker, count, worker=worker.uuid[:8])

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
        """Archive, prune and maintain what it is time for; seconds until another pass."""
        now, most = time.monotonic(), 0
        pause = max(1.0, len(self.tables) / CLEANUPS) * CLEANUP_SECONDS
        next_at = now + min(CLEANUP_SECONDS_MAX, pause)
        for alias in self._aliases():
            if now >= self.clean_at.get((alias, ""), 0.0):
                self.clean_at[alias, ""] = next_at
                Worker.objects.using(alias).long_gone().delete()
        for table in self.tables:
            if now >= self.clean_at.get(table.place, 0.0):
                count = self._clean_up_table(table, done)
                self.clean_at[table.place] = 0.0 if count else next_at
                most = max(most, count)
        return _at_once(most)

    def _clean_up_table(self, table: Table, done: Done) -> int:
        """How many rows it took at once."""
        lows = self.lows[table.place]
        archived = self._alone(table, partial(archive.archive, low=lows.finished), 0)
        pruned = self._alone(table, partial(archive.prune, lows=lows), 0)
        tidied = self._alone(table, self._do_maintenance, 0)
        done.archived += archived
        done.pruned += pruned
        done.tidied += tidied
        return max(archived, pruned, tidied)


def _at_once(count: int) -> float:
    """No wait after a chunk that was full, or would have been without a few locked rows."""
    return 0.0 if count > held.CHUNK // 2 else PASS_SECONDS_MAX


def _is_over(seconds: float | None) -> bool:
    return seconds is not None and seconds <= 0
