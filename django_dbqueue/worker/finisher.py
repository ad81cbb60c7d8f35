"""Outcomes, written in batches; what cannot be written yet is kept until it can."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from django.db.utils import Error

from .. import signals
from ..exceptions import ClaimLost
from ..lifecycle import finish
from ..lifecycle.table import Table
from .session import Patience, Session

logger = logging.getLogger("django_dbqueue")

HOPELESS = 6  # failures for which the database names no reason that passes
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
        self._oldest = 0.0
        self.patience = Patience("recording outcomes")

    def put(self, outcome: Outcome) -> None:
        self._queue.put(outcome)
        if self._queue.qsize() in {1, self.batch}:
            self.woken()

    @property
    def pending(self) -> int:
        return len(self._held) + self._queue.qsize()

    def turn(self, *, idle: bool) -> float:
        """Write what is full, late, or the last; seconds until it wants a turn again."""
        self._collect()
        if not self._held:
            return 60.0
        waited = time.monotonic() - self._oldest
        if len(self._held) < self.batch and waited < LATEST and not idle:
            return LATEST - waited
        return self.flush()

    def flush(self) -> float:
        """Write everything collected; on trouble keep it and say how long to wait."""
        self._collect()
        try:
            self.session.prepare()
            while self._held:
                self._held = _write_next(self._held)
        except Error as error:
            self.session.recover(error)
            pause = self.patience.failed(error)
            if _is_hopeless(self._held[0], error, self.patience):
                self._held.pop(0)
            return pause
        self.patience.worked()
        return 0.0 if self._queue.qsize() else 60.0

    def write_now(self, outcome: Outcome) -> None:
        """Write one outcome on the calling thread's own connection, however long it takes."""
        patience = Patience("recording an outcome")
        while True:
            try:
                _write_next([outcome])
                return
            except Error as error:
                outcome.table.on_this_thread().connection.close()
                pause = patience.failed(error)
                if _is_hopeless(outcome, error, patience):
                    return
                self._nap.wait(pause)

    def _collect(self) -> None:
        while True:
            try:
                outcome = self._queue.get_nowait()
            except Empty:
                return
            if not self._held:
                self._oldest = time.monotonic()
            self._held.append(outcome)


def _is_hopeless(outcome: Outcome, error: Error, patience: Patience) -> bool:
    """Whether the fault is the statement's own, so that trying again for ever would be in vain."""
    if outcome.table.dialect.trouble(error) or patience.failures < HOPELESS:
        return False
    logger.error(
        "%s: its outcome cannot be written, so it runs again when its claim ends: %s",
        outcome.job,
        error,
    )
    return True


def _write_next(outcomes: list[Outcome]) -> list[Outcome]:
    """Write the first outcome, and with a completion all of the same claim; what is left."""
    first = outcomes[0]
    if first.error is not None or first.expired:
        (_fail if first.error else _expire)(first, first.table.on_this_thread())
        _announce([first])
        return outcomes[1:]
    group = [o for o in outcomes if o.owner == first.owner and o.is_completion]
    _complete(first.table.on_this_thread(), first.owner, group)
    _announce(group)
    return [o for o in outcomes if o.owner != first.owner or not o.is_completion]


def _complete(table: Table, owner: str, group: list[Outcome]) -> None:
    written = finish.complete(table, owner, [outcome.job.pk for outcome in group])
    for key in written.lost:
        logger.warning(
            "%s %s: ClaimLost: it ran here, but another owner has it by now; it may run twice",
            table.label,
            key,
        )
    for key in written.gone:
        logger.info("%s %s was deleted while it ran; nothing to write", table.label, key)


def _expire(outcome: Outcome, table: Table) -> None:
    try:
        finish.expire(table, outcome.job)
        logger.info("%s %s had expired: not run", table.label, outcome.job.pk)
    except ClaimLost as lost:
        logger.warning("%s", lost)


def _fail(outcome: Outcome, table: Table) -> None:
    assert outcome.error is not None
    try:
        status = finish.fail(table, outcome.job, outcome.error, outcome.seconds)
    except ClaimLost as lost:
        logger.warning("%s; its error was: %r", lost, outcome.error)
        return
    logger.warning(
        "%s %s failed, attempt %d of %d: %s: %s; %s",
        table.label,
        outcome.job.pk,
        outcome.job.attempts,
        table.policy.max_attempts,
        type(outcome.error).__name__,
        outcome.error,
        {4: "buried", 0: "retried at once"}.get(int(status), "to be retried"),
    )


def _announce(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        model = outcome.table.model
        if outcome.error is None and signals.job_completed.has_listeners(model):
            signals.job_completed.send_robust(sender=model, job=outcome.job)
        if outcome.error is not None and signals.job_failed.has_listeners(model):
            signals.job_failed.send_robust(sender=model, job=outcome.job, error=outcome.error)
