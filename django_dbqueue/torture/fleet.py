"""The processes that are tortured, and who starts them again."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..worker.forked import CHILD
from .stops import stops_deferred

RESTART_DELAY_SECONDS = 0.5  # seconds until a process that was killed is started again
SETTINGS = "django_dbqueue.torture.settings"


def environment(
    database: dict[str, Any], folder: str, who: str, skew: float = 0, seed: int = 0
) -> dict[str, str]:
    """What a process with the settings of a torture needs; it imports what this one can."""
    given = {"database": database, "folder": folder, "who": who, "skew": skew, "seed": seed}
    paths = os.pathsep.join(path for path in sys.path if path)
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "DBQUEUE_TORTURE": json.dumps(given, default=os.fspath),  # files are often paths
        "PYTHONPATH": paths,
    }


@dataclass
class Group:
    """A process and its children, in a process group of their own; started again when killed."""

    who: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    is_worker: bool = False
    process: subprocess.Popen[bytes] | None = None
    is_stopped: bool = False
    was_killed: bool = False
    # Ends that nobody asked for.
    own_ends: list[int] = field(default_factory=list)
    _start_at: float = 0.0

    def start(self) -> None:
        self.is_stopped = self.was_killed = False
        with self.log.open("ab") as log, stops_deferred():
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self.process.pid if self.process else 0

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def children(self) -> list[int]:
        """Those that run jobs."""
        return [pid for pid in self._forked() if _name_of(pid) == CHILD]

    def family(self) -> list[int]:
        return [self.pid, *self._forked()]

    def _forked(self) -> list[int]:
        try:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
            return [int(pid) for pid in children.split()]
        except OSError:
            return []

    def send(self, number: int) -> None:
        """To all of the group, and to the children that run suspects, in groups of their own."""
        forked = self._forked()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        for pid in forked:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def revive(self) -> None:
        """Start it again, a moment after it was killed."""
        if self.is_alive:
            return
        if self.process is not None:
            if not self.was_killed:
                self.own_ends.append(self.process.returncode)
            self.process, self._start_at = None, time.monotonic() + RESTART_DELAY_SECONDS
        if time.monotonic() >= self._start_at:
            self.start()

    def ask_to_stop(self) -> None:
        if self.process is not None and self.is_alive:
            self.process.terminate()

    def end(self, seconds: float) -> None:
        """Wait until it has stopped; what it takes longer is its own fault."""
        if self.process is None:
            return
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        # It may not have come as far as to have a handler.
        if code not in {0, -signal.SIGTERM}:
            self.own_ends.append(code)

    def kill(self) -> None:
        """See to it that nothing of it is left."""
        if self.process is not None:
            self.send(signal.SIGKILL)
            self.process.wait()


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]
