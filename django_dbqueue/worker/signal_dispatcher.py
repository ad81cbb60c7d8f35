"""Sends signals from a process of its own: who beats for others runs no user code."""

import os
import signal

from .. import events, signals
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table
from .children import leave
from .session import close_before_fork
from .signalling import forget_signals

RECEIVERS_SECONDS_MAX = 60  # whole ones


class SignalDispatcher:
    """Logs what was reaped at once; forks, later in the turn, where somebody listens."""

    def __init__(self) -> None:
        self._news: list[tuple[Table, list[Reaped]]] = []
        self._sent: set[int] = set()

    def tell(self, table: Table, reaped: list[Reaped]) -> None:
        events.reaped(table, reaped)
        if reaped and signals.is_reaping_heard(table):
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
                signals.send_reaped(table.on_this_thread(), reaped)
            return 0

        if self._news:
            close_before_fork()
            pid = os.fork()
            if not pid:
                leave(send)
            self._news.clear()
            self._sent.add(pid)
        self._sent = {pid for pid in self._sent if not os.waitpid(pid, os.WNOHANG)[0]}
