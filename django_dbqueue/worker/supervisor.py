"""The supervisor: single-threaded, runs no user code, beats for its children and relieves them."""

import logging
import os
import time
import uuid
from functools import partial
from typing import Any

from django.db.utils import Error

from .. import events
from ..guard import safely
from ..lifecycle.table import Table
from ..reaper import Reaper
from .beats import Beats
from .board import Board, Running
from .children import Children, Death, resident
from .consumer import run_child
from .ending import ENOUGH, REQUESTED, Ending, Limits
from .herald import Herald
from .options import Options, all_served
from .pace import Pace
from .pulse import Pulse, notify
from .relief import Relief
from .scribe import Scribe
from .session import Patience
from .signalling import Signals

logger = logging.getLogger("django_dbqueue")

LOOK_EVERY = 0.5  # seconds between looks for jobs over their time to run
LOOK_SOON = 0.1  # while a child is about to be killed
STUCK = "{} outcomes cannot be recorded: they are kept, and written once the database takes them"


class Supervisor:
    """Keeps children at work until it is told to stop; ``run`` returns the exit code."""

    def __init__(self, options: Options, signals: Signals) -> None:
        self.options = options
        self.uuid = uuid.uuid4().hex
        self.signals = signals
        self.wakeup = signals.wakeup
        self.limits = Limits(options)
        self.pulse = Pulse(options.health_file)
        self.beats = Beats(
            self.uuid, options.serves(), options.beat_interval, options.worker_timeout
        )
        self.children = Children(
            self.limits.shares(),
            options.threads,
            self.uuid,
            partial(run_child, options),
            self.beats.aliases,
        )
        self.herald = Herald(self.children)
        self.patience = Patience("reaping")
        tables = self._tables()
        self.reaper = Reaper(tables, options.worker_timeout, self.herald.tell)
        self.relief = Relief(tables, self.beats.session, self.herald.tell)
        self.scribe = Scribe(tables, self.beats.session)
        self.pace = Pace()
        self.ending: Ending | None = None
        self.stopping_since = 0.0
        self.forced = False
        self._next_reap = 0.0

    def run(self) -> int:
        serves = ", ".join(str(served) for served in self.options.served)
        self._say("worker.started", "worker %s starts: pid %d, %s", os.getpid(), serves)
        notify("READY=1")
        while not self._is_over():
            wait = safely(self._turn)
            if not self._is_over():
                self.wakeup.wait(wait)
        ending = self.ending or self._all_left()
        self._sign_off(ending)
        message = "worker %s has stopped (%s) after %d jobs"
        self._say("worker.stopped", message, ending.reason, self.children.jobs)
        return ending.code

    def _turn(self) -> float:
        """Everything once that is due; seconds until the next thing is."""
        self.pulse.turn()
        self._heed_signals()
        self._bury_children()
        self.relief.turn()
        self._beat()
        spawn_wait = self._fill()
        look_wait = self._stop_the_overdue()
        self._reap()
        self.herald.turn()
        self.scribe.turn()
        reap_wait = self._next_reap - time.monotonic()
        waits = [self.beats.wait(), reap_wait, spawn_wait, look_wait, self._grace_left()]
        return max(0.0, min(waits))

    def _is_over(self) -> bool:
        if self.children.living or self.relief.waiting:
            return False
        return self.ending is not None or (self.children.spawned > 0 and not self.children.shares)

    # Signals and stopping

    def _heed_signals(self) -> None:
        if self.signals.stops:
            self.stop(Ending(self.signals.last))
        if self.signals.replace:
            self.signals.replace = False
            logger.info("replacing the children one by one (SIGHUP)")
            self.children.replace_all()
        # systemd sends CONT after every TERM.
        paused = self.signals.paused or self.beats.drain_requested
        if self.ending is None and paused != self.children.paused:
            self._pause(paused)
        if self._grace_left() <= 0:
            self._force()

    def stop(self, ending: Ending) -> None:
        """Let the children finish what they have in hand, and start nothing new."""
        if self.ending is not None:
            return
        self.ending = ending
        self.stopping_since = time.monotonic()
        message = "worker %s is stopping (%s): finishing what runs, giving back the rest"
        self._say("worker.stopping", message, ending.reason)
        notify("STOPPING=1")
        for child in self.children.living.values():
            child.ask_to_stop()
        self.beats.next_at = 0.0

    def _grace_left(self) -> float:
        """Seconds until what still runs is stopped at once."""
        if self.ending is None or self.forced:
            return LOOK_EVERY
        if self.signals.stops > 1:
            return 0.0
        return self.stopping_since + self.options.shutdown_timeout - time.monotonic()

    def _pause(self, paused: bool) -> None:
        if not paused:
            self._say("worker.resumed", "worker %s goes on")
        elif self.signals.paused:
            self._say("worker.paused", "worker %s claims nothing until SIGCONT (SIGUSR2)")
        else:
            self._say("worker.paused", "worker %s claims nothing: asked to drain, in its row")
        self.children.pause(paused)
        self.beats.next_at = 0.0

    def _force(self) -> None:
        self.forced = True
        for child in self.children.living.values():
            logger.warning("child %d is stopped at once; what it runs runs again", child.pid)
            child.condemn()

    def _all_left(self) -> Ending:
        """The children have left by themselves."""
        most = self.options.max_jobs
        if most is not None and self.children.jobs >= most:
            return Ending(f"--max-jobs: {most} were run", ENOUGH)
        return Ending("nothing is ready")

    def _sign_off(self, ending: Ending) -> None:
        self.pulse.close()
        self.scribe.write()
        if not self.relief.left_claims:
            try:
                self.beats.sign_off(ending.reason)
            except Error as error:
                logger.warning("could not sign off; the row will be reaped: %s", error)

    # Beats

    def _beat(self) -> None:
        if self.beats.wait():
            return
        if ending := self.limits.reached(self._memory()):
            self.stop(ending)
        if self.beats.beat(self._state()):
            for child in self.children.living.values():
                self._greet(child.board)
            if self.beats.stop_requested:
                self.stop(REQUESTED)

    def _greet(self, board: Board) -> None:
        for alias in self.beats.aliases:
            if self.beats.last_good > board.beaten_at(alias):
                board.beat(alias, self.beats.last_good, self.beats.epoch)

    def _state(self) -> dict[str, Any]:
        """The columns of our row."""
        return {
            "running": {
                str(child.pid): [_shown(job) for job in child.board.running()]
                for child in self.children.living.values()
            },
            "memory": self._memory(),
            "jobs_per_minute": self.pace.rate(self.children.jobs),
            "trouble": self._trouble(),
            "paused": self.children.paused,
            "stop_reason": self.ending.reason if self.ending else "",
        }

    def _trouble(self) -> str:
        stuck = sum(child.board.stuck for child in self.children.living.values())
        return STUCK.format(stuck) if stuck else ""

    def _memory(self) -> int:
        return resident(os.getpid()) + sum(c.memory() for c in self.children.living.values())

    # Children

    def _fill(self) -> float:
        """Fork missing children; seconds until that is due again."""
        if self.ending is not None or not self.beats.has_begun:
            return LOOK_EVERY
        self.children.replace_next()
        return self.children.fill(self._greet)

    def _bury_children(self) -> None:
        for death in self.children.deaths():
            if death.is_crash:
                logger.error("child %d died (%s)", death.child.pid, _how(death))
            self.relief.waiting.append(death)
        if self.forced and self.relief.waiting:
            self.relief.turn()
            self.relief.give_up()

    def _stop_the_overdue(self) -> float:
        """Kill a child whose job is over its time to run; nothing else stops every kind of job."""
        now = time.monotonic()
        for child in self.children.living.values():
            overdue = [job for job in child.board.running() if job.deadline < now]
            if overdue and not child.is_condemned:
                for job in overdue:
                    logger.warning("%s %s is over its time to run: stopped", job.table, job.key)
                child.condemn(overdue)
        return LOOK_SOON if self.children.kill_condemned() else LOOK_EVERY

    # Reaping

    def _reap(self) -> None:
        now = time.monotonic()
        if now < self._next_reap:
            return
        self._next_reap = now + self.options.reap_interval
        try:
            self.beats.session.prepare()
            _, wait = self.reaper.turn(judge=self.beats.may_judge)
        except Error as error:
            self.beats.session.recover(error)
            self._next_reap = now + self.patience.failed(error)
            return
        self.patience.worked()
        self._next_reap = now + min(self.options.reap_interval, wait)

    def _tables(self) -> list[Table]:
        """All queue tables of our databases: a dead worker may have served any of them."""
        all_of_them = {
            (one.model, one.using): self.options.table(one.model, one.using)
            for served in self.options.served
            for one in [served, *all_served(served.using)]
        }
        return list(all_of_them.values())

    def _say(self, event: str, message: str, *args: object) -> None:
        name = self.uuid[:8]
        events.say(logging.INFO, event, message, name, *args, worker=name)


def _shown(job: Running) -> dict[str, Any]:
    seconds = max(0.0, time.monotonic() - job.started_at)
    return {"job": f"{job.table} {job.key}", "seconds": round(seconds, 1)}


def _how(death: Death) -> str:
    code = death.code
    return f"signal {-code}" if code < 0 else f"exit code {code}"
