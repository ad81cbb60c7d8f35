"""A process that works on one database for its supervisor, which waits for none."""

import gc
import logging
import os
import random
import signal
import time
from collections.abc import Callable

from django.db import connections
from django.db.utils import Error

from .. import events
from ..dialects import ErrorKind
from ..guard import NOTHING_DUE, guarded
from ..lifecycle import reap
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table, table_of
from . import job_signals
from .background import TABLE_WRITERS, WRITERS, write_due
from .channel import AbandonedClaims, BeatNow, Channel, GivesBack, Missed, Recovered, SignOff
from .done import Done
from .forked import AGENT, leave
from .heartbeat import Heartbeat
from .measuring import Measurer
from .options import Options
from .reaper import Reaper, Tell
from .served import all_served
from .session import ReconnectBackoff, Session, close_before_fork
from .signalling import forget_signals

logger = logging.getLogger("django_dbqueue")

TURN_SECONDS_MAX = 1.0  # until another turn; it is woken when something is said
RECEIVERS_SECONDS_MAX = 60  # whole ones; for Django's signals


class SignalDispatcher:
    """Logs what was reaped at once; forks, later in the turn, where somebody listens: who beats for
    others runs no user code."""

    def __init__(self) -> None:
        self._news: list[tuple[Table, list[Reaped]]] = []
        self._sent: set[int] = set()

    def tell(self, table: Table, reaped: list[Reaped]) -> None:
        events.reaped(table, reaped)
        if reaped and job_signals.is_reaping_heard(table):
            self._news.append((table, reaped))

    def turn(self) -> None:
        """Send what there is to tell."""

        def send() -> int:
            forget_signals()
            for number in (signal.SIGTERM, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)
            # It ends even if receivers hang, and if nobody is left to see it.
            signal.alarm(RECEIVERS_SECONDS_MAX)
            for table, reaped in self._news:
                job_signals.send_reaped(table.on_this_thread(), reaped)
            return 0

        if self._news:
            close_before_fork()
            pid = os.fork()
            if not pid:
                leave(AGENT, send)
            self._news.clear()
            self._sent.add(pid)
        self._sent = {pid for pid in self._sent if not os.waitpid(pid, os.WNOHANG)[0]}


class Recovery:
    """The exited children whose claims are still to be given back; while that fails, their time to
    run ends them."""

    def __init__(
        self,
        tables: list[Table],
        session: Session,
        tell: Tell,
        recovered: Callable[[str], object] = lambda _: None,
    ) -> None:
        """``recovered`` hears the owner prefix of each child of whose claims none is left."""
        self.tables = tables
        self.session = session
        self.tell = tell
        self.recovered = recovered
        self.waiting: list[AbandonedClaims] = []
        self.backoff = ReconnectBackoff("giving back the jobs of a dead child")

    def turn(self) -> float:
        """Try each; seconds until another try, if claims are left."""
        pause = None
        for abandoned in list(self.waiting):
            try:
                self.session.prepare()
                self._give_back(abandoned)
            except Error as error:
                self.session.recover(error)
                pause = pause or self.backoff.failed(error)
            else:
                self.waiting.remove(abandoned)
                self.recovered(abandoned.owner_prefix)
        if pause is None:
            self.backoff.worked()
        return NOTHING_DUE if pause is None else pause

    def _give_back(self, abandoned: AbandonedClaims) -> None:
        """What a lock holds up in one table holds up no other."""
        prefix, failure = abandoned.owner_prefix, None
        for table in self.tables:
            started = abandoned.started.get(table.place, {})
            overdue = abandoned.overdue.get(table.place, {})
            waited = abandoned.waited.get(table.place, {}).keys()
            try:
                while reaped := reap.reap_owner(table, prefix, started, overdue, waited):
                    self.tell(table, reaped)
            except Error as error:
                kind = table.dialect.error_kind(error)
                if kind is ErrorKind.AGAIN:
                    failure = failure or error
                elif kind:
                    raise
                else:
                    logger.warning("%s: nothing given back: %s", table.label, error)
        if failure:
            raise failure


class DatabaseAgent:
    """Beats, gives back the claims of exited children, reaps, and writes the minutes."""

    def __init__(self, options: Options, heartbeat: Heartbeat, channel: Channel) -> None:
        self.options = options
        self.heartbeat = heartbeat
        self.channel = channel
        self.session, alias = heartbeat.session, heartbeat.alias
        # All queue tables of the database: a dead worker may have served any of them. What this one
        # was told is for those that it serves.
        served = {one.model: options.table for one in options.served if one.using == alias}
        table_by_model = {one.model: table_of for one in all_served(alias)} | served
        tables = [table(model, alias) for model, table in table_by_model.items()]
        self.dispatcher = SignalDispatcher()
        self.recovery = Recovery(
            tables,
            self.session,
            self._tell_given_back,
            recovered=lambda owner_prefix: channel.send(Recovered(owner_prefix)),
        )
        self.reaper = Reaper(tables, options.worker_timeout, self.dispatcher.tell)
        self.writers = [*WRITERS, *[make(tables) for make in TABLE_WRITERS]]
        self.measurer: Measurer | None = None
        if options.grows or options.balances:
            self.measurer = Measurer(options, alias, self.session, channel.send)
        self.backoff = ReconnectBackoff("reaping")
        # An agent that only reaps logs what it has done.
        self.level = logging.DEBUG if heartbeat.serves else logging.INFO
        self.sign_off: SignOff | None = None
        self.has_ended = False
        self._next_reap = 0.0

    def _tell_given_back(self, table: Table, reaped: list[Reaped]) -> None:
        self.dispatcher.tell(table, reaped)
        self.channel.send(GivesBack())

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
        beat_now: BeatNow | None = None
        for message in self.channel.receive():
            if isinstance(message, BeatNow):
                beat_now = message
            elif isinstance(message, AbandonedClaims):
                self.recovery.waiting.append(message)
            else:
                self.sign_off = message
        if self.channel.is_closed:
            self.has_ended = True
            return 0.0
        if beat_now is not None:
            self.channel.send(self.heartbeat.beat(beat_now.state) or Missed())
        if self.sign_off is not None and self.heartbeat.counts_as_dead:
            # Whatever is left there, others have by now, or take when the database works again.
            logger.warning("leaving %s without a word: it has taken no beat", self.heartbeat.alias)
            self.has_ended = True
            return 0.0
        if self.heartbeat.is_away:
            return TURN_SECONDS_MAX
        recovery_wait = guarded(self.recovery.turn)
        if self.sign_off is not None and not self.recovery.waiting:
            return self._sign_off(self.sign_off)
        for step in (self._reap, self.dispatcher.turn):
            guarded(step)
        write_wait = write_due(self.writers, self.session)
        measure_wait = NOTHING_DUE if self.measurer is None else guarded(self.measurer.turn)
        self.channel.flush()
        reap_wait = self._next_reap - time.monotonic()
        waits = (recovery_wait, write_wait, measure_wait, reap_wait)
        return max(0.0, min(TURN_SECONDS_MAX, *waits))

    def _reap(self) -> None:
        now = time.monotonic()
        if now < self._next_reap:
            return
        self._next_reap = now + self.options.reap_interval
        try:
            self.session.prepare()
            done, wait = self.reaper.turn(judge=self.heartbeat.may_judge)
        except Error as error:
            self.session.recover(error)
            self._next_reap = now + self.backoff.failed(error)
            return
        self.backoff.worked()
        if done != Done():
            logger.log(self.level, "reaper: %s", done)
        self._next_reap = now + min(self.options.reap_interval, wait)

    def _sign_off(self, sign_off: SignOff) -> float:
        """Seconds until another try, where the database is away."""
        self.dispatcher.turn()
        write_due(WRITERS, self.session, last=True)
        try:
            self.heartbeat.sign_off(sign_off.reason)
        except Error as error:
            self.session.recover(error)
            return self.backoff.failed(error)
        self.has_ended = True
        return 0.0


def run_agent(options: Options, heartbeat: Heartbeat, channel: Channel) -> int:
    """What a forked agent does; its exit code."""
    random.seed()
    forget_signals()
    # Its supervisor decides when it ends, and it notices when that is gone.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    gc.freeze()
    return DatabaseAgent(options, heartbeat, channel).run()
