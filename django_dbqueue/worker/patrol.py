"""The reaper as a process of its own."""

import logging
import time

from django.db.utils import Error

from ..lifecycle.table import table_of
from ..reaper import Done, Reaper
from .options import Served
from .session import Patience, Session
from .signalling import Signals, Wakeup

logger = logging.getLogger("django_dbqueue")


class Patrol:
    """Passes at an interval until told to stop.

    It judges workers only after ``worker_timeout`` seconds of passes without a failure: after an
    outage everybody looks dead until they have beaten again.
    """

    def __init__(self, served: tuple[Served, ...], interval: float, worker_timeout: float) -> None:
        self.interval = interval
        self.worker_timeout = worker_timeout
        self.session = Session({one.using for one in served})
        self.wakeup = Wakeup()
        self.signals = Signals(self.wakeup)
        self.patience = Patience("reaping")
        tables = [table_of(one.model, one.using) for one in served]
        self.reaper = Reaper(tables, worker_timeout)
        self._good_since = time.monotonic()
        self._last_good = time.monotonic()

    def once(self) -> Done:
        """One pass; waits ``worker_timeout`` first where a worker looks dead, and looks again."""
        self.session.prepare()
        done, _ = self.reaper.turn(judge=False)
        if self.reaper.dead_workers():
            logger.warning("a worker looks dead; looking again in %g s", self.worker_timeout)
            self.wakeup.wait(self.worker_timeout)
            self.reaper.reap_dead_workers(done)
        return done

    def run(self) -> int:
        """Passes until TERM or INT; the exit code."""
        self.signals.install()
        while not self.signals.stops:
            self.wakeup.wait(self._pass())
        return 0

    def _pass(self) -> float:
        now = time.monotonic()
        if now - self._last_good > self.worker_timeout / 2 + self.interval:
            self._good_since = now
        try:
            self.session.prepare()
            done, wait = self.reaper.turn(judge=now - self._good_since >= self.worker_timeout)
        except Error as error:
            self.session.recover(error)
            self._good_since = time.monotonic()
            return self.patience.failed(error)
        self.patience.worked()
        self._last_good = time.monotonic()
        if str(done) != "nothing to do":
            logger.info("reaper: %s", done)
        return min(self.interval, wait)
