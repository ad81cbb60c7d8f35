"""Children of a supervisor: forked, watched, relieved, replaced."""

import contextlib
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from django.db import connections

from .board import Board, Running

logger = logging.getLogger("django_dbqueue")

SHORT_LIFE = 5.0  # seconds; a child that dies younger is replaced later and later


@dataclass
class Child:
    """One living child: its process, the owner prefix of its claims, its board and its pipe."""

    pid: int
    owner_prefix: str
    board: Board
    control: int
    started_at: float = field(default_factory=time.monotonic)

    def ask_to_stop(self) -> None:
        try:
            os.write(self.control, b"!")
        except BrokenPipeError:
            pass  # it is gone already

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def memory(self) -> int:
        """Resident bytes; 0 where the system does not tell."""
        return resident(self.pid)


@dataclass(frozen=True)
class Death:
    """What a dead child leaves behind: whose claims, what it ran, what of it was over its time."""

    child: Child
    code: int
    started: list[Running]
    overdue: list[Running]
    killed_by_us: bool

    @property
    def orderly(self) -> bool:
        return self.code == 0


class Children:
    """Keeps the wanted number of children alive; a crashing one comes back with growing pauses."""

    def __init__(self, wanted: int, threads: int, uuid: str, body: Callable[..., int]) -> None:
        self.wanted = wanted
        self.threads = threads
        self.uuid = uuid
        self.body = body
        self.living: dict[int, Child] = {}
        self.spawned = 0
        self._condemned: dict[int, list[Running]] = {}
        self._short_lives = 0
        self._next_spawn = 0.0

    def fill(self, beat: Callable[[Board], None]) -> None:
        """Fork what is missing, unless the last ones died too young to try again already."""
        while len(self.living) < self.wanted and time.monotonic() >= self._next_spawn:
            self._fork(beat)

    def next_spawn(self) -> float:
        """Seconds until a missing child may be forked; 60 when none is missing."""
        if len(self.living) >= self.wanted:
            return 60.0
        return max(0.0, self._next_spawn - time.monotonic())

    def _fork(self, beat: Callable[[Board], None]) -> None:
        self.spawned += 1
        board = Board(self.threads)
        beat(board)
        prefix = f"{self.uuid}.{self.spawned}-"
        reader, writer = os.pipe()
        connections.close_all()  # no connection crosses a fork
        pid = os.fork()
        if not pid:
            os.close(writer)
            for other in self.living.values():
                os.close(other.control)
            _leave(self.body, prefix, board, reader)
        os.close(reader)
        self.living[pid] = Child(pid, prefix, board, writer)

    def condemn(self, child: Child, overdue: list[Running]) -> None:
        """Kill a child, for jobs that are over their time to run or for none."""
        self._condemned[child.pid] = overdue
        child.kill()

    def is_condemned(self, child: Child) -> bool:
        return child.pid in self._condemned

    def deaths(self) -> list[Death]:
        """Children that have ended since the last call."""
        return [death for pid in list(self.living) if (death := self._death(pid))]

    def _death(self, pid: int) -> Death | None:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            return None
        child = self.living.pop(pid)
        os.close(child.control)
        killed = pid in self._condemned
        overdue = self._condemned.pop(pid, [])
        code = os.waitstatus_to_exitcode(status)
        if code and not killed:
            self._slow_down(child)
        return Death(child, code, child.board.running(), overdue, killed)

    def _slow_down(self, child: Child) -> None:
        young = time.monotonic() - child.started_at < SHORT_LIFE
        self._short_lives = self._short_lives + 1 if young else 0
        if self._short_lives > 1:
            pause = min(30.0, 0.1 * 2.0**self._short_lives)
            self._next_spawn = time.monotonic() + pause
            logger.warning("children keep dying young; the next one starts in %.1f s", pause)


def _leave(body: Callable[..., int], prefix: str, board: Board, control: int) -> None:
    """Run the child's body and end the process, whatever happens in it."""
    code = 1
    try:
        code = body(prefix, board, control)
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            logging.shutdown()
        os._exit(code)


def resident(pid: int) -> int:
    """The resident memory of a process in bytes; 0 where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
