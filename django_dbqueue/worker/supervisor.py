"""The supervisor: single-threaded, runs no user code, beats for its children and relieves them."""

import logging
import os
import time
import uuid
from functools import partial

from django.db.utils import Error

from ..lifecycle import reap
from ..lifecycle.table import Table
from ..reaper import Reaper
from .beats import Beats
from .board import Board, Running
from .children import Children, Death, resident
from .consumer import run_child
from .options import Options, all_served
from .session import Patience
from .signalling import Signals, Wakeup

logger = logging.getLogger("django_dbqueue")

LOOK_EVERY = 0.5  # seconds between looks for jobs over their time to run


class Supervisor:
    """Keeps children at work until it is told to stop; ``run`` returns the exit code."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.uuid = uuid.uuid4().hex
        aliases = {served.using for served in options.served}
        self.wakeup = Wakeup()
        self.signals = Signals(self.wakeup)
        self.beats = Beats(self.uuid, aliases, options.beat_interval, options.worker_timeout)
        self.children = Children(
            options.processes, options.threads, self.uuid, partial(run_child, options)
        )
        self.patience = Patience("reaping")
        self.reaper = Reaper(self._tables(), options.worker_timeout)
        self.relieving: list[Death] = []
        self.stopping_since = 0.0
        self.forced = False
        self.left_claims = False
        self._next_reap = 0.0

    def run(self) -> int:
        self.signals.install()
        logger.info("worker %s starts: pid %d, %s", self.uuid[:8], os.getpid(), self._serves())
        while not self._is_over():
            self.wakeup.wait(self._turn())
        self._sign_off()
        logger.info("worker %s has stopped%s", self.uuid[:8], self._why())
        return 0

    def _turn(self) -> float:
        """Everything once that is due; seconds until the next thing is."""
        self._heed_signals()
        self._bury_children()
        self._relieve()
        self._beat()
        spawn_wait = self._fill()
        self._stop_the_overdue()
        self._reap()
        now = time.monotonic()
        waits = [self.beats.next_at - now, self._next_reap - now, spawn_wait]
        return max(0.0, min([LOOK_EVERY, *waits]))

    def _is_over(self) -> bool:
        if self.children.living or self.relieving:
            return False
        return bool(self.stopping_since) or (self.children.spawned > 0 and not self.children.wanted)

    # Signals and stopping

    def _heed_signals(self) -> None:
        if self.signals.stops and not self.stopping_since:
            self.stop(self.signals.last)
        late = time.monotonic() - self.stopping_since > self.options.shutdown_timeout
        if self.stopping_since and not self.forced and (self.signals.stops > 1 or late):
            self.forced = True
            for child in self.children.living.values():
                logger.warning("child %d is stopped at once; what it runs runs again", child.pid)
                self.children.condemn(child, [])

    def stop(self, reason: str) -> None:
        """Let the children finish what they have in hand, and start nothing new."""
        logger.info("stopping (%s): finishing what runs, giving back the rest", reason)
        self.stopping_since = time.monotonic()
        for child in self.children.living.values():
            child.ask_to_stop()

    def _sign_off(self) -> None:
        if self.left_claims:
            return
        try:
            self.beats.session.prepare()
            self.beats.sign_off()
        except Error as error:
            logger.warning("could not sign off; the row will be reaped: %s", error)
        self.wakeup.close()

    # Beats

    def _beat(self) -> None:
        if time.monotonic() < self.beats.next_at:
            return
        if self.beats.beat(self._running(), self._memory()):
            for child in self.children.living.values():
                self._greet(child.board)
            if not self.stopping_since and self._asked_to_stop():
                self.stop("requested in the admin")

    def _asked_to_stop(self) -> bool:
        try:
            return self.beats.stop_requested()
        except Error as error:
            self.beats.session.recover(error)
            return False

    def _greet(self, board: Board) -> None:
        if self.beats.last_good > board.beaten_at:
            board.beat(self.beats.last_good, self.beats.epoch)

    def _running(self) -> dict[str, list[str]]:
        return {
            str(child.pid): [f"{job.table} {job.key}" for job in child.board.running()]
            for child in self.children.living.values()
        }

    def _memory(self) -> int:
        return resident(os.getpid()) + sum(c.memory() for c in self.children.living.values())

    # Children

    def _fill(self) -> float:
        """Fork missing children; seconds until that is due again."""
        if self.stopping_since or not self.beats.has_begun:
            return LOOK_EVERY
        self.children.fill(self._greet)
        return self.children.next_spawn()

    def _bury_children(self) -> None:
        for death in self.children.deaths():
            if death.orderly and self.options.stop_when_empty:
                self.children.wanted -= 1
            elif not death.orderly and not death.killed_by_us:
                logger.error("child %d died (%s)", death.child.pid, _how(death.code))
            self.relieving.append(death)

    def _relieve(self) -> None:
        """Give back the claims of dead children; while that fails, their time to run ends them."""
        while self.relieving:
            try:
                self.beats.session.prepare()
                count = self._give_back(self.relieving[0])
            except Error as error:
                self.beats.session.recover(error)
                self.patience.failed(error)
                if self.forced:
                    # The reapers of others do it, once they miss the beats of our row.
                    self.relieving.clear()
                    self.left_claims = True
                return
            death = self.relieving.pop(0)
            if count:
                logger.warning("gave back %d jobs of child %d", count, death.child.pid)

    def _give_back(self, death: Death) -> int:
        count = 0
        for table in self._tables():
            try:
                count += _give_back_of(table, death)
            except Error as error:
                if table.dialect.trouble(error):
                    raise
                logger.warning("%s: nothing given back: %s", table.label, error)
        return count

    def _stop_the_overdue(self) -> None:
        """Kill a child whose job is over its time to run; nothing else stops every kind of job."""
        now = time.monotonic()
        for child in self.children.living.values():
            overdue = [job for job in child.board.running() if job.deadline < now]
            if overdue and not self.children.is_condemned(child):
                for job in overdue:
                    logger.warning("%s %s is over its time to run: stopped", job.table, job.key)
                self.children.condemn(child, overdue)

    # Reaping

    def _reap(self) -> None:
        now = time.monotonic()
        if now < self._next_reap:
            return
        self._next_reap = now + self.options.reap_interval
        try:
            self.beats.session.prepare()
            done, wait = self.reaper.turn(judge=self.beats.may_judge)
        except Error as error:
            self.beats.session.recover(error)
            self._next_reap = now + self.patience.failed(error)
            return
        self.patience.worked()
        self._next_reap = now + min(self.options.reap_interval, wait)
        if done.reaped:
            logger.warning("reaper: %s", done)

    def _tables(self) -> list[Table]:
        """All queue tables of our databases: a dead worker may have served any of them."""
        all_of_them = {
            (one.model, one.using): self.options.table(one.model, one.using)
            for served in self.options.served
            for one in [served, *all_served(served.using)]
        }
        return list(all_of_them.values())

    def _serves(self) -> str:
        names = sorted(f"{s.label}:{s.queue}" if s.queue else s.label for s in self.options.served)
        return ", ".join(names)

    def _why(self) -> str:
        if self.signals.last:
            return f" ({self.signals.last})"
        return "" if self.stopping_since else " (nothing is ready)"


def _give_back_of(table: Table, death: Death) -> int:
    """Give back a dead child's claims on one table; what was stopped by us is charged to nobody."""
    started = set() if death.killed_by_us else _keys(death.started, table)
    overdue = _keys(death.overdue, table)
    count = 0
    while freed := reap.reap_owner(table, death.child.owner_prefix, started, overdue):
        count += freed
    return count


def _keys(running: list[Running], table: Table) -> set[str]:
    return {job.key for job in running if job.table == table.label}


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
