"""The worker processes: ``manage.py runworker``, each with children of its own."""

import os
import signal
import subprocess
import sys

from django_dbqueue.models import Worker

from .folder import FOLDER, ROOT, shown
from .post import HOST

PROCESSES, THREADS = 2, 2
# Deferred mail comes back within seconds here; usually it is 20 minutes.
RETRY_FIRST = 2
COMMAND = f"runworker --processes {PROCESSES} --threads {THREADS}"


STOP_WITHIN = 10  # seconds from TERM; with nothing in hand it takes a moment


class WorkerWrong(Exception):
    """A worker ended that nobody had asked to, or did not end when asked."""


class Process:
    """One worker in a process group of its own, with a log file."""

    def __init__(self, number: int, smtp_port: int) -> None:
        self.number = number
        self.log = FOLDER / f"worker-{number}.log"
        self.killed = False
        with self.log.open("w") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "manage.py", *COMMAND.split()],
                cwd=ROOT,
                env=_environment(smtp_port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self.popen.pid

    def owner_prefix(self) -> str:
        """What the owner of each of its claims begins with; '' before its first beat."""
        row = Worker.objects.filter(pid=self.pid).first()
        return f"{row.uuid}." if row else ""

    def kill(self) -> None:
        """SIGKILL the supervisor and all its children: a power cut, as far as they can tell."""
        self.killed = True
        os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait()

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        self.popen.terminate()
        try:
            return self.popen.wait(timeout=STOP_WITHIN)
        except subprocess.TimeoutExpired:
            raise self._wrong(f"did not stop within {STOP_WITHIN} s of SIGTERM") from None

    def clean_up(self) -> None:
        """Whatever happened, leave no process behind; a group may outlive its leader."""
        if self.killed or self.popen.poll() == 0:
            return
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.popen.wait()

    def check_alive(self) -> None:
        if self.killed or self.popen.poll() is None:
            return
        raise self._wrong(f"ended by itself with exit code {self.popen.returncode}")

    def _wrong(self, what: str) -> WorkerWrong:
        tail = self.log.read_text().splitlines()[-8:]
        return WorkerWrong("\n".join([f"{self} {what}; {shown(self.log)} ends with:", *tail]))

    def __str__(self) -> str:
        return f"worker {self.number} (pid {self.pid})"


def _environment(smtp_port: int) -> dict[str, str]:
    return os.environ | {
        "EMAIL_HOST": HOST,
        "EMAIL_PORT": str(smtp_port),
        "DBQUEUE_MAIL_RETRY_FIRST": str(RETRY_FIRST),
    }
