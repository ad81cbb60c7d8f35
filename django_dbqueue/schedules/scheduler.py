"""Each agent looks for due schedules about once a second. It forks a process for those that are
due, since enqueueing runs the project's own code."""

import logging
import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.db import connections, router
from django.db.utils import Error

from ..dialects import dialect_of
from ..lifecycle.table import Table
from ..worker.forked import leave
from ..worker.session import Session, close_before_fork
from ..worker.signalling import forget_signals
from .declared import DECLARED
from .firing import Look, due_in, first_due, look
from .models import Schedule
from .replan import replan
from .synchronise import is_outdated, synchronise

logger = logging.getLogger("django_dbqueue")

LOOK_SECONDS = 1.0  # between two looks
UNFIT_SECONDS = 60.0  # until another look where our table is missing
CLOCK_TOLERANCE = timedelta(seconds=5)  # by which a database's clock may go back
ENQUEUE_SECONDS_MAX = 30  # whole ones; then the process that enqueues is ended
PROCESS_NAME = "dbqueue-sched"
# It stays where another schedule is due so soon, yet never for longer than that.
LINGER_SECONDS, LIFE_SECONDS_MAX = 5.0, 60.0
LEFT_OUT = "what is declared may not be written to %s before a worker starts again: %s"
REST_SECONDS_MIN = 0.05  # a time that a hand wrote may seem due to us, and not to the database


@dataclass(frozen=True)
class Errand:
    """What a forked process is to do for a worker, by its process."""

    worker: int
    synchronises: bool = False
    replans: bool = False
    is_careful: bool = False


class Scheduler:
    """A ``Writer`` of ``worker/background.py``: one for each database's agent."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.alias = tables[0].connection.alias if tables else ""
        self._is_used = bool(tables) and router.allow_migrate_model(self.alias, Schedule)
        # Not all workers of a host at once.
        self._look_at = time.monotonic() + random.uniform(0, LOOK_SECONDS)
        self._is_synchronised = False
        # Whether all ticks are planned by the database's clock as it is now, and what it showed.
        self._is_planned = False
        self._clock: datetime | None = None
        self._is_careful = False
        self._pid = 0
        self._errand = Errand(os.getppid())

    def due_in(self) -> float:
        return max(0.0, self._look_at - time.monotonic()) if self._is_used else UNFIT_SECONDS

    def write(self) -> None:
        """One statement, where nothing is due."""
        self._look_at = time.monotonic() + LOOK_SECONDS
        if self._is_enqueueing():
            return
        try:
            is_wanted = self._is_wanted()
        except Error as error:
            # Where it is not migrated here, it is asked seldom.
            if dialect_of(connections[self.alias]).error_kind(error) is None:
                self._look_at = time.monotonic() + UNFIT_SECONDS
            raise
        if is_wanted:
            self._fork()

    def _is_wanted(self) -> bool:
        """Whether there is something to do for a forked process."""
        first = first_due(self.alias)
        if first is None:
            self._is_planned = True
        else:
            # Another server, after a failover, or its clock was set.
            is_back = self._clock is not None and first.now < self._clock - CLOCK_TOLERANCE
            self._is_planned &= not is_back
            self._clock = first.now
        if not self._is_synchronised:
            declared = Schedule.objects.using(self.alias).filter(is_declared=True)
            self._is_synchronised = not (DECLARED or declared.exists())
        is_due = first is not None and first.wait <= 0
        return is_due or not (self._is_synchronised and self._is_planned)

    def _is_enqueueing(self) -> bool:
        """Whether the process that enqueues is still there."""
        if not self._pid:
            return False
        ended, status = os.waitpid(self._pid, os.WNOHANG)
        if not ended:
            return True
        self._pid, code = 0, os.waitstatus_to_exitcode(status)
        self._is_careful = code not in {0, os.EX_TEMPFAIL, os.EX_UNAVAILABLE}
        if self._is_careful:
            message = "enqueueing what is due on %s ended with code %d, and is tried again"
            logger.warning(message, self.alias, code)
        elif code != os.EX_TEMPFAIL:
            self._is_synchronised |= self._errand.synchronises
            self._is_planned |= self._errand.replans
        return False

    def _fork(self) -> None:
        """After one that came to a bad end the next one is careful, and does nothing else: a
        declaration that hangs keeps nobody from the schedules that are there."""
        worker = os.getppid()
        self._errand = Errand(worker, is_careful=True)
        if not self._is_careful:
            self._errand = Errand(worker, not self._is_synchronised, not self._is_planned)
        close_before_fork()
        agent = os.getpid()
        self._pid = os.fork()
        if not self._pid:
            leave(PROCESS_NAME, lambda: enqueue(self.alias, agent, self._errand))


def enqueue(alias: str, agent: int, errand: Errand) -> int:
    """What the forked process does, until nothing is due soon or its agent is gone; its exit code:
    ``EX_TEMPFAIL`` where the database has not let it do everything, and ``EX_UNAVAILABLE`` where no
    other try will help."""
    forget_signals()
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    random.seed()
    started, rest = time.monotonic(), threading.Event()
    session = Session({alias})
    try:
        # It ends even if what it calls hangs.
        signal.alarm(ENQUEUE_SECONDS_MAX)
        session.prepare()
        code = _begin(alias, errand, session)
        while os.getppid() == agent and time.monotonic() < started + LIFE_SECONDS_MAX:
            signal.alarm(ENQUEUE_SECONDS_MAX)
            if look(Look(alias, errand.is_careful, partial(_go_on, agent))):
                continue
            wait = due_in(alias)
            if code or wait is None or wait > LINGER_SECONDS:
                break
            rest.wait(min(LOOK_SECONDS, max(REST_SECONDS_MIN, wait)))
    except Error as error:
        return _left(alias, error)
    return code


def _go_on(agent: int) -> None:
    """For as long again with the next schedule, unless the agent is gone."""
    if os.getppid() == agent:
        signal.alarm(ENQUEUE_SECONDS_MAX)


def _begin(alias: str, errand: Errand, session: Session) -> int:
    """What is done once; where it fails, what is due is enqueued all the same."""
    try:
        if errand.synchronises and not is_outdated(alias, errand.worker):
            synchronise(alias)
        if errand.replans:
            replan(alias)
    except Error as error:
        session.recover(error)
        session.prepare()
        if dialect_of(connections[alias]).error_kind(error) is None:
            logger.warning(LEFT_OUT, alias, str(error).strip())
            return os.EX_UNAVAILABLE
        return _left(alias, error)
    return 0


def _left(alias: str, error: Error) -> int:
    logger.debug("what is due on %s is left for another time: %s", alias, error)
    return os.EX_TEMPFAIL
