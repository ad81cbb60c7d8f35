"""A process that works on one database for its supervisor, which waits for none."""

import gc
import logging
import random
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connections
from django.db.utils import Error

from ..guard import guarded
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table
from .background import IN_AGENTS, write_due
from .channel import Channel
from .heartbeat import Beat, Heartbeat
from .options import Options
from .reaper import Done, Reaper
from .recovery import AbandonedClaims, Recovery
from .served import all_served
from .session import ReconnectBackoff
from .signal_dispatcher import SignalDispatcher
from .signalling import forget_signals

logger = logging.getLogger("django_dbqueue")

IDLE = 1.0  # seconds; it is woken when something is said
NAME = "dbqueue-agent"  # in ps and top; at most 15 bytes


# What a supervisor says, next to an ``AbandonedClaims``.


@dataclass(frozen=True)
class BeatNow:
    """``state``: the columns of the worker's row."""

    state: Mapping[str, Any]


@dataclass(frozen=True)
class SignOff:
    """Once all claims of exited children are given back."""

    reason: str


# What an agent says, next to a ``Beat`` that was written.


@dataclass(frozen=True)
class Missed:
    """A beat could not be written."""


@dataclass(frozen=True)
class GivesBack:
    """Some claims of an exited child are given back."""


@dataclass(frozen=True)
class Recovered:
    """No claim of this exited child is left."""

    owner_prefix: str


@dataclass(frozen=True)
class Assignment:
    """Whose agent it is, and for which database; ``last``: the beat of the agent before."""

    uuid: str
    pid: int
    alias: str
    serves: tuple[str, ...]
    last: Beat | None = None


class DatabaseAgent:
    """Beats, gives back the claims of exited children, reaps, and writes the minutes."""

    def __init__(self, options: Options, assignment: Assignment, channel: Channel) -> None:
        self.options = options
        self.channel = channel
        self.heartbeat = Heartbeat(
            assignment.uuid,
            assignment.alias,
            assignment.serves,
            options.beat_interval,
            options.worker_timeout,
            last=assignment.last,
            pid=assignment.pid,
        )
        tables = _tables(options, assignment.alias)
        session = self.heartbeat.session
        self.dispatcher = SignalDispatcher()
        self.recovery = Recovery(tables, session, self._given_back, self._recovered)
        self.reaper = Reaper(tables, options.worker_timeout, self.dispatcher.tell)
        self.writers = [make(tables) for make in IN_AGENTS]
        self.patience = ReconnectBackoff("reaping")
        # Who only reaps tells what it has done.
        self.level = logging.DEBUG if assignment.serves else logging.INFO
        self.sign_off: SignOff | None = None
        self.has_ended = False
        self._next_beat: BeatNow | None = None
        self._next_reap = 0.0

    def run(self) -> int:
        """Until it has signed off, or the supervisor is gone; the exit code."""
        while not self.has_ended:
            wait = guarded(self.turn)
            if not self.has_ended:
                self.channel.wait(wait)
        connections.close_all()
        return 0

    def turn(self) -> float:
        """Everything once that is due; seconds until the next thing is."""
        self._listen()
        if self.channel.is_closed:
            self.has_ended = True
            return 0.0
        self._beat()
        if self.heartbeat.is_away:
            return IDLE
        recovery_wait = guarded(self.recovery.turn)
        if self.sign_off is not None and not self.recovery.waiting:
            return self._sign_off(self.sign_off)
        for step in (self._reap, self.dispatcher.turn):
            guarded(step)
        write_due(self.writers, self.heartbeat.session)
        self.channel.flush()
        return max(0.0, min(IDLE, recovery_wait, self._next_reap - time.monotonic()))

    def _listen(self) -> None:
        for message in self.channel.receive():
            if isinstance(message, BeatNow):
                self._next_beat = message
            elif isinstance(message, AbandonedClaims):
                self.recovery.waiting.append(message)
            else:
                self.sign_off = message

    def _beat(self) -> None:
        message, self._next_beat = self._next_beat, None
        if message is not None:
            self.channel.send(self.heartbeat.beat(message.state) or Missed())

    def _given_back(self, table: Table, reaped: list[Reaped]) -> None:
        self.dispatcher.tell(table, reaped)
        self.channel.send(GivesBack())

    def _recovered(self, owner_prefix: str) -> None:
        self.channel.send(Recovered(owner_prefix))

    def _reap(self) -> None:
        now = time.monotonic()
        if now < self._next_reap:
            return
        self._next_reap = now + self.options.reap_interval
        try:
            self.heartbeat.session.prepare()
            done, wait = self.reaper.turn(judge=self.heartbeat.may_judge)
        except Error as error:
            self.heartbeat.session.recover(error)
            self._next_reap = now + self.patience.failed(error)
            return
        self.patience.worked()
        if done != Done():
            logger.log(self.level, "reaper: %s", done)
        self._next_reap = now + min(self.options.reap_interval, wait)

    def _sign_off(self, sign_off: SignOff) -> float:
        """Seconds until another try, where the database is away."""
        self.dispatcher.turn()
        write_due(self.writers, self.heartbeat.session, last=True)
        try:
            self.heartbeat.sign_off(sign_off.reason)
        except Error as error:
            self.heartbeat.session.recover(error)
            return self.patience.failed(error)
        self.has_ended = True
        return 0.0


def _tables(options: Options, alias: str) -> list[Table]:
    """All queue tables of a database: a dead worker may have served any of them."""
    here = [served for served in options.served if served.using == alias]
    models = {one.model: None for one in [*here, *all_served(alias)]}
    return [options.table(model, alias) for model in models]


def run_agent(options: Options, assignment: Assignment, channel: Channel) -> int:
    """What a forked agent does; its exit code."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(NAME)
    random.seed()
    forget_signals()
    # Its supervisor decides when it ends, and it notices when that is gone.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    gc.freeze()
    return DatabaseAgent(options, assignment, channel).run()
