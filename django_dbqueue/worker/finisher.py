"""How jobs ended, written in batches; what cannot be written yet is kept until it can."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial

from django.db.utils import Error

from ..dialects import ErrorKind
from ..guard import capture
from ..lifecycle.execute import try_once, unlocked_keys
from ..lifecycle.table import Table
from .background import WRITERS, write_due
from .buffer import Outcome
from .session import STATEMENT_WATCHDOG, ReconnectBackoff, Session, brief_locks
from .write_outcomes import write_next

logger = logging.getLogger("django_dbqueue")

HOPELESS_AFTER = 6  # failures for which the database names no reason that passes
LOCKED_RETRY_SECONDS = 2.0  # between tries to write to a locked table
OUTCOME_WAIT_SECONDS = 0.1  # that an outcome may wait for others
UNWRITTEN_MAX = 200  # outcomes
GIVEN_UP_MAX = 1000  # outcomes that are remembered


class Finisher:
    """Collects outcomes from the runners and writes them, completions of one owner at once. With
    ``max_unwritten`` of them nothing more may start: a kill would repeat them all."""

    def __init__(
        self,
        session: Session,
        batch: int,
        woken: Callable[[], None],
        max_unwritten: float = UNWRITTEN_MAX,
    ) -> None:
        self.session = session
        self.batch = batch
        self.max_unwritten = max_unwritten
        self.is_full = False
        # Their jobs stay claimed until their time is over, which is a failed attempt.
        self._given_up: deque[Outcome] = deque(maxlen=GIVEN_UP_MAX)
        self._room = threading.Condition()
        self._nap = threading.Event()
        self.woken = woken
        # From the runners; then, collected, to be written next.
        self._incoming: deque[Outcome] = deque()
        self._to_write: list[Outcome] = []
        self._waiting_since = 0.0
        # Of rows that somebody has locked.
        self._locked: list[Outcome] = []
        self.retry_locked_at = 0.0
        # Tables with so many of those that their jobs are not to start.
        self.locked_tables: frozenset[tuple[str, str]] = frozenset()
        self.backoff = ReconnectBackoff("recording outcomes")

    def put(self, outcome: Outcome) -> None:
        self._incoming.append(outcome)
        waiting = len(self._incoming)
        if waiting + len(self._to_write) + len(self._locked) >= self.max_unwritten:
            self.is_full = True
        if waiting == 1 or waiting == self.batch:
            self.woken()

    @property
    def pending(self) -> int:
        return len(self._to_write) + len(self._locked) + len(self._incoming)

    def unwritten(self) -> list[Outcome]:
        """For another thread: none of them is missed, though it moves from here to there."""
        incoming, before, locked = list(self._incoming), self._to_write, self._locked
        return [*incoming, *before, *locked, *self._to_write, *self._given_up]

    @property
    def stuck(self) -> int:
        """How many outcomes the database does not take for now."""
        return self.pending if self.backoff.failures else len(self._locked)

    def wait_for_room(self) -> None:
        """Where it is full, a runner waits before it starts a job."""
        with self._room:
            self._room.wait_for(self._has_room)

    def _has_room(self) -> bool:
        # What waits for a locked table, of which nothing starts, keeps no other one waiting.
        locked = len(self._locked) if self.locked_tables else 0
        return self.pending - locked < self.max_unwritten

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
        self._collect()
        waited = time.monotonic() - self._waiting_since
        if self._locked and time.monotonic() >= self.retry_locked_at:
            pause = self.flush()
        elif not self._to_write:
            pause = 60.0 if idle and not self._locked else OUTCOME_WAIT_SECONDS
        elif idle or waited >= OUTCOME_WAIT_SECONDS:
            pause = self.flush()
        elif len(self._to_write) >= self.batch:
            pause = self.flush(whole=True)
        else:
            pause = OUTCOME_WAIT_SECONDS - waited
        return min(pause, write_due(WRITERS, self.session))

    def end(self) -> None:
        """All outcomes are written."""
        write_due(WRITERS, self.session, last=True)

    def write_all(self) -> bool:
        """Before a kill: how other jobs ended, and what was counted of them; whether it is so."""
        self.flush()
        if self.pending:
            return False
        self.end()
        return True

    def flush(self, *, whole: bool = False) -> float:
        """Write everything collected; on trouble keep it and say how long to wait. ``whole``: leave
        the newest claim, if it is not at its end: it takes one statement however much there is."""
        self._collect()
        if self._locked:
            with capture() as look:
                self._look_at_locked()
            if look.error is not None:
                return self._failed(look.error)
            self._make_room()  # all that waits may be of locked tables by now
        while self._to_write:
            first, last = self._to_write[0], self._to_write[-1]
            if whole and not last.ends_claim and first.owner == last.owner and not self.is_full:
                break
            with capture() as write:
                self.session.prepare()
                self._to_write = write_next(self._to_write)
            if write.error is not None and not self._is_put_aside(write.error):
                return self._failed(write.error)
            self._waiting_since = time.monotonic()
            self._make_room()
        self.backoff.worked()
        if self._to_write:
            return max(0.0, self._waiting_since + OUTCOME_WAIT_SECONDS - time.monotonic())
        if self._locked and not self._incoming:
            return max(0.0, self.retry_locked_at - time.monotonic())
        return 0.0 if self._incoming else 60.0

    def _collect(self) -> None:
        incoming, collected = self._incoming, self._to_write
        if incoming and not collected:
            self._waiting_since = time.monotonic()
        while incoming:
            # In this order: who looks from outside is to see it.
            collected.append(incoming[0])
            incoming.popleft()

    def _look_at_locked(self) -> None:
        """Where rows of a table are locked, waiting for one more would hold up all the others."""
        self.session.prepare()
        tables = {one.table.place: one.table.on_this_thread() for one in self._locked}
        if time.monotonic() >= self.retry_locked_at:
            self._to_write, self._locked = self._locked + self._to_write, []
        for table in tables.values():
            self._put_aside(table)

    def _is_put_aside(self, error: Exception) -> bool:
        """A row, or a table, that somebody has locked keeps no other outcome waiting."""
        table = self._to_write[0].table.on_this_thread()
        if table.dialect.one_writer or not isinstance(error, Error):
            return False
        if table.dialect.error_kind(error) is not ErrorKind.AGAIN:
            return False
        if not self._locked:
            logger.warning("recording outcomes: rows of %s are locked: %s", table.label, error)
        with capture() as look:
            self._put_aside(table, or_all=True)
        return look.error is None

    def _put_aside(self, table: Table, *, or_all: bool = False) -> None:
        """Leave for later those whose rows are locked; ``or_all``: all of the table where no lock
        is seen any more, since it may be one that only a write meets with."""
        outcomes = [one for one in self._to_write if one.table.place == table.place]
        look = partial(unlocked_keys, table, [one.job.claim_key for one in outcomes])
        free = set(try_once(table.connection, look) or ())
        locked = [one for one in outcomes if one.job.claim_key not in free]
        if or_all and not locked:
            locked = outcomes
        if time.monotonic() >= self.retry_locked_at:
            self.retry_locked_at = time.monotonic() + LOCKED_RETRY_SECONDS
        aside = {id(one) for one in locked}
        self._locked += locked
        self._to_write = [one for one in self._to_write if id(one) not in aside]
        is_much = len(self._locked) >= self.max_unwritten / 4
        self.locked_tables = frozenset(one.table.place for one in self._locked if is_much)

    def write_now(self, outcome: Outcome) -> None:
        """Write one outcome on the calling thread's own connection, however long it takes."""
        for pause in self.tries_to_write(outcome):
            self._nap.wait(pause)

    def tries_to_write(self, outcome: Outcome) -> Iterator[float]:
        """The same, try by try: the seconds to wait before each further one."""
        backoff = ReconnectBackoff("recording an outcome")
        connection = outcome.table.on_this_thread().connection
        while True:
            # The first try costs every job time. Where it was given up, its session may wait on for
            # a lock: no further one is to join it there.
            locks = brief_locks(connection) if backoff.failures else nullcontext()
            with capture() as write, STATEMENT_WATCHDOG.watches(connection), locks:
                write_next([outcome])
            if write.error is None:
                return
            hopeless = self._is_hopeless(outcome, write.error, backoff)
            connection.close()
            pause = backoff.failed(write.error)
            if hopeless:
                return
            yield pause

    def _failed(self, error: Exception) -> float:
        if self._to_write and self._is_hopeless(self._to_write[0], error, self.backoff):
            self._to_write.pop(0)
            self._make_room()
        if isinstance(error, Error):
            self.session.recover(error)
        return self.backoff.failed(error)

    def _is_hopeless(self, outcome: Outcome, error: Exception, backoff: ReconnectBackoff) -> bool:
        """Whether the fault is the statement's own, so that trying again for ever would be in
        vain."""
        if isinstance(error, Error):
            kind = outcome.table.on_this_thread().dialect.error_kind(error)
            if kind or backoff.failures < HOPELESS_AFTER:
                return False
        said = "its outcome cannot be written, so it runs again when its claim ends"
        logger.error("%s: %s: %r", outcome.job, said, error)
        self._given_up.append(outcome)
        return True
