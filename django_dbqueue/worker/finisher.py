"""Outcomes, written in batches; what cannot be written yet is kept until it can."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error

from ..dialects import ErrorKind
from ..guard import capture
from ..lifecycle.execute import try_once, unlocked_keys
from ..lifecycle.table import Table
from .background import IN_CHILDREN, write_due
from .outcomes import Outcome, write_next
from .session import ReconnectBackoff, Session, connect_impatiently
from .statement_watchdog import STATEMENT_WATCHDOG

logger = logging.getLogger("django_dbqueue")

HOPELESS = 6  # failures for which the database names no reason that passes
LOCKED = 2.0  # seconds between tries to write to a locked table
LATEST = 0.1  # seconds that an outcome may wait for others
MAX_UNWRITTEN = 200  # outcomes
GIVEN_UP = 1000  # outcomes that are remembered


class Finisher:
    """Collects outcomes from the runners and writes them, completions of one owner at once.

    With ``max_unwritten`` of them nothing more may start: a kill would repeat them all.
    """

    def __init__(
        self,
        session: Session,
        batch: int,
        woken: Callable[[], None],
        max_unwritten: float = MAX_UNWRITTEN,
    ) -> None:
        self.session = session
        self.batch = batch
        self.max_unwritten = max_unwritten
        self.is_full = False
        # Their jobs stay claimed until their time is over, which is a failed attempt.
        self._given_up: deque[Outcome] = deque(maxlen=GIVEN_UP)
        self._room = threading.Condition()
        self._nap = threading.Event()
        self.woken = woken
        self._queue: deque[Outcome] = deque()
        self._held: list[Outcome] = []
        # Of rows that somebody has locked.
        self._aside: list[Outcome] = []
        self.aside_until = 0.0
        # Tables with so many of those that their jobs are not to start.
        self.locked: frozenset[tuple[str, str]] = frozenset()
        self._oldest = 0.0
        self.patience = ReconnectBackoff("recording outcomes")

    def put(self, outcome: Outcome) -> None:
        self._queue.append(outcome)
        waiting = len(self._queue)
        if waiting + len(self._held) + len(self._aside) >= self.max_unwritten:
            self.is_full = True
        if waiting == 1 or waiting == self.batch:
            self.woken()

    @property
    def pending(self) -> int:
        return len(self._held) + len(self._aside) + len(self._queue)

    def unwritten(self) -> list[Outcome]:
        """For another thread: none of them is missed, though it moves from here to there."""
        waiting, before, aside = list(self._queue), self._held, self._aside
        return [*waiting, *before, *aside, *self._held, *self._given_up]

    @property
    def stuck(self) -> int:
        """How many outcomes the database does not take for now."""
        return self.pending if self.patience.failures else len(self._aside)

    def wait_for_room(self) -> None:
        """Where it is full, a runner waits before it starts a job."""
        with self._room:
            self._room.wait_for(self._has_room)

    def _has_room(self) -> bool:
        # What is kept of a locked table, of which nothing starts, keeps no other one waiting.
        kept = len(self._aside) if self.locked else 0
        return self.pending - kept < self.max_unwritten

    def _make_room(self) -> None:
        if not self.is_full:
            return
        # In this order: what is put meanwhile is either counted here, or says so itself.
        self.is_full = False
        if not self._has_room():
            self.is_full = True
            return
        with self._room:
            self._room.notify_all()
        self.woken()

    def end_waiting(self) -> None:
        """There is nothing to start any more."""
        self.max_unwritten = float("inf")
        self.is_full = True
        self._make_room()

    def turn(self, *, idle: bool) -> float:
        """Write what is full, late, or the last; seconds until it wants a turn again."""
        return min(self._turn(idle=idle), write_due(IN_CHILDREN, self.session))

    def end(self) -> None:
        """All outcomes are written."""
        write_due(IN_CHILDREN, self.session, last=True)

    def _turn(self, *, idle: bool) -> float:
        self._collect()
        if self._aside and time.monotonic() >= self.aside_until:
            return self.flush()
        if not self._held:
            return 60.0 if idle and not self._aside else LATEST
        waited = time.monotonic() - self._oldest
        if idle or waited >= LATEST:
            return self.flush()
        return LATEST - waited if len(self._held) < self.batch else self.flush(whole=True)

    def flush(self, *, whole: bool = False) -> float:
        """Write everything collected; on trouble keep it and say how long to wait. ``whole``: leave
        the newest claim, if it is not at its end: it takes one statement however much there is."""
        self._collect()
        with capture() as look:
            if self._aside:
                self._look_at_locked()
        if look.error is not None:
            return self._failed(look.error)
        while self._held and not (whole and self._is_begun()):
            with capture() as write:
                self._write_first()
            if write.error is not None and not self._put_aside(write.error):
                return self._failed(write.error)
            self._oldest = time.monotonic()
            self._make_room()
        self.patience.worked()
        if self._held:
            return max(0.0, self._oldest + LATEST - time.monotonic())
        if self._aside and not self._queue:
            return max(0.0, self.aside_until - time.monotonic())
        return 0.0 if self._queue else 60.0

    def _is_begun(self) -> bool:
        """Whether all that is left is of a claim of which more is to come."""
        first, last = self._held[0], self._held[-1]
        return not last.ends_claim and first.owner == last.owner and not self.is_full

    def _look_at_locked(self) -> None:
        """Where rows of a table are locked, waiting for one more would hold up all the others."""
        self.session.prepare()
        tables = {one.table.place: one.table.on_this_thread() for one in self._aside}
        if time.monotonic() >= self.aside_until:
            self._held, self._aside = self._aside + self._held, []
        for table in tables.values():
            self._set_aside(self._locked_among(table))

    def _put_aside(self, error: Exception) -> bool:
        """A row, or a table, that somebody has locked keeps no other outcome waiting."""
        table = self._held[0].table.on_this_thread()
        if table.dialect.one_writer or not isinstance(error, Error):
            return False
        if table.dialect.error_kind(error) is not ErrorKind.AGAIN:
            return False
        if not self._aside:
            logger.warning("recording outcomes: rows of %s are locked: %s", table.label, error)
        with capture() as look:
            # Where no lock is seen any more, it may be one that only a write meets with.
            self._set_aside(self._locked_among(table) or self._outcomes_of(table))
        return look.error is None

    def _locked_among(self, table: Table) -> list[Outcome]:
        mine = self._outcomes_of(table)
        look = partial(unlocked_keys, table, [one.job.claim_key for one in mine])
        free = set(try_once(table.connection, look) or ())
        return [one for one in mine if one.job.claim_key not in free]

    def _outcomes_of(self, table: Table) -> list[Outcome]:
        return [one for one in self._held if one.table.place == table.place]

    def _set_aside(self, outcomes: list[Outcome]) -> None:
        if time.monotonic() >= self.aside_until:
            self.aside_until = time.monotonic() + LOCKED
        kept = {id(one) for one in outcomes}
        self._aside += outcomes
        self._held = [one for one in self._held if id(one) not in kept]
        is_much = len(self._aside) >= self.max_unwritten / 4
        self.locked = frozenset(one.table.place for one in self._aside if is_much)

    def write_now(self, outcome: Outcome) -> None:
        """Write one outcome on the calling thread's own connection, however long it takes."""
        patience = ReconnectBackoff("recording an outcome")
        connection = outcome.table.on_this_thread().connection
        while True:
            with capture() as write:
                _write_in_time(outcome, connection)
            if write.error is None:
                return
            hopeless = self._is_hopeless(outcome, write.error, patience)
            connection.close()
            connect_impatiently(connection)
            pause = patience.failed(write.error)
            if hopeless:
                return
            self._nap.wait(pause)

    def _write_first(self) -> None:
        self.session.prepare()
        self._held = write_next(self._held)

    def _failed(self, error: Exception) -> float:
        if self._held and self._is_hopeless(self._held[0], error, self.patience):
            self._held.pop(0)
            self._make_room()
        if isinstance(error, Error):
            self.session.recover(error)
        return self.patience.failed(error)

    def _is_hopeless(self, outcome: Outcome, error: Exception, patience: ReconnectBackoff) -> bool:
        """Whether the fault is the statement's own, so that trying again for ever would be in vain.

        Ask before the connection is closed: a closed one cannot tell any more that it was lost.
        """
        if isinstance(error, Error):
            trouble = outcome.table.on_this_thread().dialect.error_kind(error)
            if trouble or patience.failures < HOPELESS:
                return False
        logger.error(
            "%s: its outcome cannot be written, so it runs again when its claim ends: %r",
            outcome.job,
            error,
        )
        self._given_up.append(outcome)
        return True

    def _collect(self) -> None:
        while self._queue:
            if not self._held:
                self._oldest = time.monotonic()
            # In this order: who looks from outside is to see it.
            self._held.append(self._queue[0])
            self._queue.popleft()


def _write_in_time(outcome: Outcome, connection: BaseDatabaseWrapper) -> None:
    """On a connection on which jobs may wait for as long as they want."""
    with connection.execute_wrapper(STATEMENT_WATCHDOG.execute):
        write_next([outcome])
