"""The reaper as a process of its own: a supervisor without children, or a single pass."""

import logging
import threading
from dataclasses import replace

from ..lifecycle.promotion import promote
from ..lifecycle.table import table_of
from .agent import SignalDispatcher
from .background import WRITERS, write_due
from .done import Done
from .options import Options
from .reaper import Reaper
from .served import all_served
from .session import Session
from .signalling import Signals, WakeupPipe
from .supervisor import Supervisor

logger = logging.getLogger("django_dbqueue")


class StandaloneReaper:
    """Passes at an interval until told to stop, or once.

    It beats like a worker, so that it knows whether others can: after an outage everybody looks
    dead until they have beaten again.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.stop = threading.Event()

    def once(self) -> Done:
        """One pass; waits ``worker_timeout`` first where claims may have to be ended, and looks
        again."""
        tables = [table_of(one.model, one.using) for one in self.options.served]
        session = Session({one.using for one in self.options.served})
        dispatcher = SignalDispatcher()
        timeout = self.options.worker_timeout
        reaper = Reaper(tables, timeout, dispatcher.tell)
        session.prepare()
        done, _ = reaper.turn(judge=lambda: False)
        if reaper.has_suspicion():
            logger.warning("a worker looks dead; looking again in %g s", timeout)
            self.stop.wait(timeout)
            again, _ = reaper.turn(judge=lambda: True)
            done += again
        dispatcher.turn()
        write_due(WRITERS, session, last=True)
        return done

    def run(self) -> int:
        """Passes until TERM, INT or a request in its row; the exit code."""
        signals = Signals(WakeupPipe())
        signals.install()
        nothing: dict[str, list[str]] = {one.using: [] for one in self.options.served}
        code = Supervisor(self.options, signals, serves=nothing, shares=[]).run()
        signals.ignore()
        return code


def look_after(options: Options) -> None:
    """One pass, for a worker that may end before it has beaten long enough to judge others; all
    that is due is ready then."""
    served = tuple(one for using in options.serves() for one in all_served(using))
    StandaloneReaper(replace(options, served=served)).once()
    for one in options.served:
        while promote(options.table(one.model, one.using)):
            pass
