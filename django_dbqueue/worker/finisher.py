"""Outcomes, written in batches; what cannot be written yet is kept until it can."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from django.db.utils import Error

from .. import events
from ..dialects import Trouble
from ..exceptions import ClaimLost
from ..guard import caught, message_of
from ..lifecycle import finish
from ..lifecycle.finish import Written
from ..lifecycle.results import NONE, Results
from ..lifecycle.table import Table
from ..minutes import TALLY
from .session import Patience, Session

logger = logging.getLogger("django_dbqueue")

HOPELESS = 6  # failures for which the database names no reason that passes
LOCKED = 2.0  # seconds between tries to write to a locked table
LATEST = 0.1  # seconds that an outcome may wait for others


@dataclass(slots=True)
class Outcome:
    """How a job ended."""

    table: Table
    owner: str
    job: Any
    error: Exception | None = None
    seconds: float = 0
    expired: bool = False
    results: Results = NONE

    @property
    def is_completion(self) -> bool:
        return self.error is None and not self.expired


class Finisher:
    """Collects outcomes from the runners and writes them, completions of one owner at once."""

    def __init__(self, session: Session, batch: int, woken: Callable[[], None]) -> None:
        self.session = session
        self.batch = batch
        self._nap = threading.Event()
        self.woken = woken
        self._queue: SimpleQueue[Outcome] = SimpleQueue()
        self._held: list[Outcome] = []
        # Of tables that somebody has locked.
        self._aside: list[Outcome] = []
        self.aside_until = 0.0
        self._oldest = 0.0
        self.patience = Patience("recording outcomes")

    def put(self, outcome: Outcome) -> None:
        self._queue.put(outcome)
        waiting = self._queue.qsize()
        if waiting == 1 or waiting == self.batch:
            self.woken()

    @property
    def pending(self) -> int:
        return len(self._held) + len(self._aside) + self._queue.qsize()

    @property
    def stuck(self) -> int:
        """How many outcomes the database does not take for now."""
        return self.pending if self._aside or self.patience.failures else 0

    def turn(self, *, idle: bool) -> float:
        """Write what is full, late, or the last; seconds until it wants a turn again."""
        wait = self._turn(idle=idle)
        if not TALLY.wait():
            self.write_minutes()
        return min(wait, TALLY.wait())

    def write_minutes(self) -> None:
        """They are for people to look at: nothing waits for them, and nobody tries hard."""
        error = caught(self._write_minutes)
        if isinstance(error, Error):
            self.session.recover(error)

    def _write_minutes(self) -> None:
        self.session.prepare()
        TALLY.write()

    def _turn(self, *, idle: bool) -> float:
        self._collect()
        if self._aside and time.monotonic() >= self.aside_until:
            return self.flush()
        if not self._held:
            return 60.0 if idle and not self._aside else LATEST
        waited = time.monotonic() - self._oldest
        if len(self._held) < self.batch and waited < LATEST and not idle:
            return LATEST - waited
        return self.flush()

    def flush(self) -> float:
        """Write everything collected; on trouble keep it and say how long to wait."""
        self._collect()
        if time.monotonic() >= self.aside_until:
            self._held, self._aside = self._aside + self._held, []
        while self._held:
            error = caught(self._write_first)
            if error is not None and not self._put_aside(error):
                return self._failed(error)
        self.patience.worked()
        if self._aside:
            return max(0.0, self.aside_until - time.monotonic())
        return 0.0 if self._queue.qsize() else 60.0

    def _put_aside(self, error: Exception) -> bool:
        """A table that somebody has locked keeps the outcomes of no other one waiting."""
        table = self._held[0].table.on_this_thread()
        if table.dialect.one_writer or not isinstance(error, Error):
            return False
        if table.dialect.trouble(error) is not Trouble.AGAIN:
            return False
        if not self._aside:
            logger.warning("recording outcomes: %s is locked: %s", table.label, error)
        self._aside += [one for one in self._held if one.table.label == table.label]
        self._held = [one for one in self._held if one.table.label != table.label]
        self.aside_until = time.monotonic() + LOCKED
        return True

    def write_now(self, outcome: Outcome) -> None:
        """Write one outcome on the calling thread's own connection, however long it takes."""
        patience = Patience("recording an outcome")
        while error := caught(lambda: _write_next([outcome])):
            hopeless = _is_hopeless(outcome, error, patience)
            outcome.table.on_this_thread().connection.close()
            pause = patience.failed(error)
            if hopeless:
                return
            self._nap.wait(pause)

    def _write_first(self) -> None:
        self.session.prepare()
        self._held = _write_next(self._held)

    def _failed(self, error: Exception) -> float:
        if _is_hopeless(self._held[0], error, self.patience):
            self._held.pop(0)
        if isinstance(error, Error):
            self.session.recover(error)
        return self.patience.failed(error)

    def _collect(self) -> None:
        while True:
            try:
                outcome = self._queue.get_nowait()
            except Empty:
                return
            if not self._held:
                self._oldest = time.monotonic()
            self._held.append(outcome)


def _is_hopeless(outcome: Outcome, error: Exception, patience: Patience) -> bool:
    """Whether the fault is the statement's own, so that trying again for ever would be in vain.

    Ask before the connection is closed: a closed one cannot tell any more that it was lost.
    """
    if isinstance(error, Error):
        trouble = outcome.table.on_this_thread().dialect.trouble(error)
        if trouble or patience.failures < HOPELESS:
            return False
    logger.error(
        "%s: its outcome cannot be written, so it runs again when its claim ends: %r",
        outcome.job,
        error,
    )
    return True


def _write_next(outcomes: list[Outcome]) -> list[Outcome]:
    """Write the first outcome, and with a completion all of the same claim; what is left."""
    first = outcomes[0]
    table = first.table.on_this_thread()
    if first.expired:
        _expire(first, table)
        return outcomes[1:]
    if first.error is not None:
        _fail(first, table, first.error)
        return outcomes[1:]
    completions: list[Outcome] = []
    others: list[Outcome] = []
    for one in outcomes:
        (completions if one.owner == first.owner and one.is_completion else others).append(one)
    _complete(table, completions)
    return others


def _complete(table: Table, group: list[Outcome]) -> None:
    owner = group[0].owner
    written = _written(table, owner, group)
    lost, gone = set(written.lost), set(written.gone)
    is_heard = events.are_completions_heard(table)
    for outcome in group:
        if outcome.job.claim_key in lost:
            events.lost(table, outcome.job, owner)
        elif outcome.job.claim_key in gone:
            events.gone(table, outcome.job, owner)
        else:
            TALLY.completed(table, outcome.job.queue, outcome.seconds)
            if is_heard:
                events.completed(table, outcome.job, outcome.seconds)


def _written(table: Table, owner: str, group: list[Outcome]) -> Written:
    """Completed together, or, where each has results of its own, one by one."""
    if not table.policy.results:
        return finish.complete(table, owner, [outcome.job.claim_key for outcome in group])
    written = Written()
    for outcome in group:
        written += finish.complete(table, owner, [outcome.job.claim_key], outcome.results)
    return written


def _expire(outcome: Outcome, table: Table) -> None:
    try:
        was_there = finish.expire(table, outcome.job)
    except ClaimLost as error:
        events.lost(table, outcome.job, outcome.owner, error)
    else:
        if was_there:
            events.expired(table, outcome.job)
        else:
            events.gone(table, outcome.job, outcome.owner)


def _fail(outcome: Outcome, table: Table, error: Exception) -> None:
    try:
        verdict = finish.fail(table, outcome.job, error, outcome.seconds)
    except ClaimLost:
        said = f"{type(error).__name__}: {message_of(error)}"
        events.lost(table, outcome.job, outcome.owner, f"its error was: {said}")
    else:
        if verdict is None:
            events.gone(table, outcome.job, outcome.owner)
        else:
            TALLY.failed(table, outcome.job.queue, outcome.seconds, verdict.is_buried)
            events.failed(table, outcome.job, error, outcome.seconds, verdict, outcome.owner)
    # Its frames hold the job's local variables, and of a coroutine the thread of its loop.
    error.__traceback__ = None
