"""Workers as real processes on the test database."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from django_dbqueue.models import Worker
from django_dbqueue.worker import forked
from tests.kit.connections import other_connection
from tests.kit.waiting import wait_until
from tests.kit.warm_processes import Warm

ROOT = Path(__file__).resolve().parents[2]
# The dead are noticed soon, and a busy machine's pauses are taken for no death.
QUICK = {"DBQUEUE_BEAT_INTERVAL": "0.3", "DBQUEUE_WORKER_TIMEOUT": "3"}


class Process:
    """``manage.py`` with some arguments, in a process group of its own."""

    def __init__(
        self,
        database_url: str,
        *args: str,
        folder: Path = ROOT,
        within: Sequence[str] = (),
        **environment: str,
    ) -> None:
        """``within``: a command that runs it."""
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # kept until the end
        own = {"DATABASE_URL": database_url, "DBQUEUE_TESTS": "1", "DEBUG": "0"} | environment
        env, command = os.environ | own, ["manage.py", *args]
        self.popen: Any
        if within or "PYTHONPATH" in environment:
            self.popen = subprocess.Popen(
                [*within, sys.executable, *command],
                cwd=folder,
                env=env,
                stderr=self._log,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        else:
            self.popen = Warm(command, cwd=folder, env=env, stderr=self._log)

    @property
    def pid(self) -> int:
        return int(self.popen.pid)

    @property
    def stderr(self) -> str:
        """What it has written so far."""
        return os.pread(self._log.fileno(), 10_000_000, 0).decode()

    def children(self) -> list[int]:
        """Those that run jobs."""
        return self._called(forked.CHILD)

    def agents(self) -> list[int]:
        return self._called(forked.AGENT)

    def probes(self) -> list[int]:
        """What answers at the probe port."""
        return self._called(forked.PROBE)

    def _called(self, name: str) -> list[int]:
        return [pid for pid in self.forked() if _name(pid) == name]

    def forked(self) -> list[int]:
        """All of its own, whatever they are for."""
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        try:
            return [int(pid) for pid in path.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            return []  # it has ended

    def send(self, number: int) -> None:
        """Nothing happens where it has ended, like ``Popen.send_signal``."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def send_group(self, number: int) -> None:
        """To all of its processes; a child that runs suspects is in a group of its own."""
        forked = self.forked()
        os.killpg(self.pid, number)
        for pid in forked:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def freeze(self) -> None:
        """Stop all its processes, but not in the middle of a write: on SQLite nobody else could go
        on either."""
        while True:
            self.send_group(signal.SIGSTOP)
            wait_until(self.is_stopped)
            if is_writable():
                return
            self.send_group(signal.SIGCONT)

    def is_stopped(self) -> bool:
        """In all threads: one of them gets the signal, and the others go on until it has run."""
        threads = [
            path
            for pid in (self.pid, *self.forked())
            for path in Path(f"/proc/{pid}/task").glob("*")
        ]
        return all(_state(thread) in "TZX" for thread in threads)

    def end(self, seconds: float = 30) -> int:
        """Wait for the end; the exit code."""
        self.stdout, _ = self.popen.communicate(timeout=seconds)
        return int(self.popen.returncode)

    def kill(self) -> None:
        try:
            self.send_group(signal.SIGCONT)
            self.send_group(signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.popen.communicate()


@contextmanager
def running(database_url: str, *args: str, **environment: Any) -> Iterator[Process]:
    """A process that is gone afterwards, with all its children; where the test fails, what it wrote
    is shown."""
    process = Process(database_url, *args, **environment)
    try:
        yield process
    except BaseException:
        print(process.stderr)
        raise
    finally:
        process.kill()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def has_ended(pid: int) -> bool:
    """Also where nobody has reaped it yet."""
    return _state(Path(f"/proc/{pid}")) in "ZX"


def _state(folder: Path) -> str:
    """The letter of a process or thread; X where it is gone."""
    try:
        return (folder / "stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def is_writable(milliseconds: int = 500) -> bool:
    """Whether nobody keeps the lock that all writers of a SQLite database share."""
    if connection.vendor != "sqlite":
        return True
    own = other_connection()
    with closing(own), own.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {milliseconds}")
        try:
            cursor.execute("BEGIN IMMEDIATE")
        except OperationalError:
            return False
    return True


def worker(database_url: str, *args: str, **environment: Any) -> Any:
    """Without Django's system checks, which are half of what a start costs; with them:
    ``running(url, "runworker", ..)``."""
    return running(database_url, "runworker", "--skip-checks", *args, **environment)


def give_back(database_url: str, stopped: Process, model: Any) -> bool:
    """Whether a worker that was stopped has left jobs claimed, as it says that it may on a busy
    machine; another one gives them back."""
    left = model.objects.claimed()
    if not left.exists():
        return False
    assert "could not sign off" in stopped.stderr
    with worker(database_url, "queueapp.Kept", **QUICK):
        wait_until(lambda: not left.exists())
    return True


def wait_for_a_beat(process: Process) -> None:
    """Until a worker has written another one; its claimers have had turns in that time."""
    mine = Worker.objects.filter(pid=process.pid)
    beat = mine.get().beat_at
    wait_until(lambda: mine.get().beat_at > beat)


def skip_where_coverage_is_measured() -> None:
    """For jobs that fork: coverage writes from every thread, and what is copied in that moment
    waits for its lock for ever."""
    if "coverage" in sys.modules:
        pytest.skip("coverage does not outlive a fork next to other threads")


def open_gate(log: str, name: str = "gate") -> None:
    """Jobs with that log that wait at the gate of that name go on."""
    Path(f"{log}.{name}").touch()


def lines(log: str) -> list[str]:
    """The whole ones; of one that is being written, a part may be there."""
    return Path(log).read_text().split("\n")[:-1] if Path(log).exists() else []


def wait_for_lines(log: str, count: int, seconds: float = 60) -> list[str]:
    return list(wait_until(lambda: len(lines(log)) >= count and lines(log), seconds))
