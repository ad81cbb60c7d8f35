"""``--probe-port``: a process that answers HTTP for its supervisor, by memory that both share.

It waits for nobody: what it tells of the supervisor the supervisor has written into that memory.
"""

import logging
import os
import signal
import socket
import time
from contextlib import suppress
from typing import Protocol

from ..exceptions import DBQueueError
from .agents import Agents
from .children import Children
from .forked import PROBE, leave
from .options import Options, StopReason
from .probe_page import (
    CHILDREN,
    JOBS,
    MEMORY,
    PAUSED,
    PHASE,
    RUNNING,
    STUCK,
    TURNED_AT,
    Phase,
    ProbePage,
)
from .session import close_before_fork

logger = logging.getLogger("django_dbqueue")

TELL_SECONDS = 1.0  # between two looks at what children run
FORK_PAUSE_SECONDS = 1.0  # until another one is forked in place of one that died
BACKLOG = 16  # connections that wait to be taken


class PortTaken(DBQueueError):
    """Nothing can be served at ``--probe-host`` and ``--probe-port``."""


class Supervised(Protocol):
    """What is told of a supervisor."""

    agents: Agents
    children: Children
    stop_reason: StopReason | None
    memory: int


class Probe:
    """The supervisor's side: the port, the memory, and the process, which is replaced if it dies.

    Without ``probe_port`` it does nothing.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.page = ProbePage(sorted(options.serves()))
        self._listener: socket.socket | None = None
        self._pid = 0
        self._fork_at = 0.0
        self._tell_at = 0.0

    def open(self) -> None:
        """Take the port, and answer from here on; ``PortTaken`` where that cannot be."""
        if not self.options.probe_port:
            return
        place = self.options.probe_host, self.options.probe_port
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        try:
            self._listener = socket.create_server(place, family=family, backlog=BACKLOG)
        except (OSError, ValueError, TypeError) as error:  # the others of a name that is none
            where = "{} port {}".format(*place)
            raise PortTaken(f"--probe-port: cannot listen on {where}: {error}") from error
        close_before_fork()
        self._fork()

    def turn(self, told: Supervised) -> None:
        """Say that the supervisor is alive, and, once a second, how it is."""
        if self._listener is None:
            return
        now = time.monotonic()
        self.page.times[TURNED_AT] = now
        is_stopping = told.stop_reason is not None and self.page.phase is not Phase.STOPPING
        if now >= self._tell_at or is_stopping:
            self._tell_at = now + TELL_SECONDS
            tell(self.page, told)
            self._look(now, told)

    def _look(self, now: float, told: Supervised) -> None:
        if self._pid and os.waitpid(self._pid, os.WNOHANG)[0]:
            logger.warning("what answers at the probe port has died: it is replaced")
            self._pid, self._fork_at = 0, now + FORK_PAUSE_SECONDS
        if not self._pid and now >= self._fork_at:
            self._fork(told)

    def _fork(self, told: Supervised | None = None) -> None:
        """``told``: whose pipes the process would keep open."""
        from .probe_server import serve  # noqa: PLC0415  # costs the others no http.server

        assert self._listener is not None, "it is open"
        listener, parent = self._listener, os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            logger.warning("the probe port cannot be served for now: %s", error)
            self._fork_at = time.monotonic() + FORK_PAUSE_SECONDS
            return
        if not pid:
            if told is not None:
                told.agents.let_go()
                told.children.let_go()
            leave(PROBE, lambda: serve(listener, self.page, self.options, parent))
        self._pid = pid

    def let_go(self) -> None:
        """In a forked process: the port is our supervisor's."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def close(self) -> None:
        """Answer no more."""
        self.let_go()
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0


def tell(page: ProbePage, told: Supervised) -> None:
    """All that the memory holds, but the turn."""
    numbers, living = page.numbers, told.children.living.values()
    numbers[PHASE] = Phase.RUNNING if told.stop_reason is None else Phase.STOPPING
    numbers[PAUSED] = told.children.paused
    numbers[CHILDREN], numbers[JOBS] = len(living), told.children.jobs
    numbers[RUNNING] = sum(len(child.shared.running()) for child in living)
    numbers[STUCK] = sum(child.shared.stuck for child in living)
    numbers[MEMORY] = told.memory
    for handle in told.agents:
        if handle.last is not None and handle.alias in page.aliases:
            page.note_beat(handle.alias, handle.last.at)
