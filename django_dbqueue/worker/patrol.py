"""The reaper as a process of its own."""

import logging
import uuid

from django.db.utils import Error

from ..guard import safely
from ..lifecycle.reap import promote
from ..lifecycle.table import table_of
from ..reaper import Done, Reaper
from .beats import Beats
from .ending import REQUESTED, Ending
from .herald import Herald
from .options import Options, Served, all_served
from .scribe import Scribe
from .session import Patience
from .signalling import Signals, Wakeup

logger = logging.getLogger("django_dbqueue")


class Patrol:
    """Passes at an interval until told to stop.

    It beats like a worker, so that it knows whether others can: after an outage everybody looks
    dead until they have beaten again.
    """

    def __init__(
        self,
        served: tuple[Served, ...],
        interval: float,
        *,
        beat_interval: float,
        worker_timeout: float,
    ) -> None:
        self.interval = interval
        self.worker_timeout = worker_timeout
        nothing: dict[str, list[str]] = {one.using: [] for one in served}
        self.beats = Beats(uuid.uuid4().hex, nothing, beat_interval, worker_timeout)
        self.wakeup = Wakeup()
        self.signals = Signals(self.wakeup)
        self.patience = Patience("reaping")
        self.herald = Herald()
        self.ending: Ending | None = None
        tables = [table_of(one.model, one.using) for one in served]
        self.scribe = Scribe(tables, self.beats.session)
        self.reaper = Reaper(tables, worker_timeout, self.herald.tell)

    def once(self) -> Done:
        """One pass; waits ``worker_timeout`` first where claims may have to be ended, and looks
        again."""
        self.beats.session.prepare()
        done, _ = self.reaper.turn(judge=lambda: False)
        if self.reaper.has_suspicion():
            logger.warning("a worker looks dead; looking again in %g s", self.worker_timeout)
            self.wakeup.wait(self.worker_timeout)
            again, _ = self.reaper.turn(judge=lambda: True)
            done += again
        self.herald.turn()
        self.scribe.write()
        return done

    def run(self) -> int:
        """Passes until TERM, INT or a request in its row; the exit code."""
        self.signals.install()
        while self.ending is None:
            self.wakeup.wait(safely(self._turn))
            if self.signals.stops:
                self.ending = Ending(self.signals.last)
        self._sign_off(self.ending)
        self.signals.ignore()
        return self.ending.code

    def _turn(self) -> float:
        waits = self._beat(), self._pass()
        self.herald.turn()
        self.scribe.turn()
        return min(waits)

    def _beat(self) -> float:
        if not self.beats.wait() and self.beats.beat({}) and self.beats.stop_requested:
            self.ending = REQUESTED
            return 0.0
        return self.beats.wait()

    def _pass(self) -> float:
        try:
            self.beats.session.prepare()
            done, wait = self.reaper.turn(judge=self.beats.may_judge)
        except Error as error:
            self.beats.session.recover(error)
            return self.patience.failed(error)
        self.patience.worked()
        if str(done) != "nothing to do":
            logger.info("reaper: %s", done)
        return min(self.interval, wait)

    def _sign_off(self, ending: Ending) -> None:
        self.scribe.write()
        try:
            self.beats.sign_off(ending.reason)
        except Error as error:
            logger.warning("could not sign off: %s", error)


def look_after(options: Options) -> None:
    """One pass, for a worker that may end before it has beaten long enough to judge others; all
    that is due is ready then."""
    tables = tuple(one for using in options.serves() for one in all_served(using))
    timing = {"beat_interval": options.beat_interval, "worker_timeout": options.worker_timeout}
    Patrol(tables, 0, **timing).once()
    for one in options.served:
        while promote(options.table(one.model, one.using)):
            pass
