"""A worker as a child process of a web process: it lives and dies with it."""

import atexit
import logging
import os
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from ..backoff import Exponential
from ..conf import conf
from ..worker.parent import PARENT
from .lock import HostLock, lock_path

logger = logging.getLogger("django_dbqueue")

LOCK_SECONDS = 1.0  # between tries to get the lock
PAUSES = Exponential(first=1, factor=2, cap=60, jitter=0)  # before a dead worker is started again
STEADY_SECONDS = 60.0  # after a life as long, the first pause again
PLANNED_SECONDS_MIN = 5.0  # of a life that a limit ended, which may be too low for any
KILL_SECONDS = 5.0  # beyond its own time to stop, until a worker that was told to is killed


class WorkerProcess:
    """Keeps one ``runworker`` alive, from a thread, until ``stop`` or the end of this process.

    With a ``lock`` only while this process has it. A worker whose parent was killed ends by
    itself.
    """

    def __init__(self, command: list[str], lock: HostLock | None = None) -> None:
        self.command = command
        self.lock = lock
        self.server = os.getpid()
        self._leaving = threading.Event()
        self._starting = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None
        self._grace = 0.0

    def start(self) -> None:
        atexit.register(self.stop)
        threading.Thread(target=self._keep_alive, name="dbqueue-worker", daemon=True).start()

    def stop(self) -> None:
        """Let it finish what runs, for as long as it takes for that itself; then kill it."""
        if os.getpid() != self.server:
            return  # a fork of the server ends
        self._leaving.set()
        with self._starting:
            worker = self._worker
        if worker is not None:
            _end(worker, self._grace + KILL_SECONDS)
        if self.lock is not None:
            self.lock.release()
        atexit.unregister(self.stop)

    def _keep_alive(self) -> None:
        # gunicorn's configuration imports this module before there are models.
        from ..worker.options import EXIT_LIMIT_REACHED  # noqa: PLC0415

        deaths, pause = 0, 0.0
        while not self._leaving.wait(pause):
            if self.lock is not None and not self.lock.acquire():
                pause = LOCK_SECONDS
                continue
            since = time.monotonic()
            code = self._run()
            if self._leaving.is_set():
                return
            if code == os.EX_OK:
                logger.warning("the worker was asked to stop: it starts again with the server")
                return
            lived = time.monotonic() - since
            if code == EXIT_LIMIT_REACHED and lived >= PLANNED_SECONDS_MIN:
                deaths, pause = 0, PAUSES.seconds(1)
                logger.info("the worker ended as planned: starting it again in %.0f s", pause)
                continue
            deaths = 1 if lived >= STEADY_SECONDS else deaths + 1
            pause = PAUSES.seconds(deaths)
            message = "the worker ended with exit code %s: starting it again in %.0f s"
            logger.warning(message, code, pause)

    def _run(self) -> int | None:
        """Until it ends; its exit code, or None where there is none."""
        with self._starting:
            if self._leaving.is_set():
                return None
            try:
                self._worker = self._spawn()
            except (OSError, ImproperlyConfigured) as error:
                logger.warning("the worker cannot be started: %s", error)
                return None
        return self._worker.wait()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        self._grace = _shutdown_timeout()
        environment = os.environ | {PARENT: str(self.server)}
        # What systemd wants to know is how the server is.
        environment.pop("NOTIFY_SOCKET", None)
        return subprocess.Popen(  # noqa: S603
            self.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=2,  # the server's stderr
            # So that Ctrl-C reaches it only through us.
            start_new_session=True,
        )


def _shutdown_timeout() -> float:
    """Of a worker that starts now, which may have a file with options."""
    seconds: float = conf["SHUTDOWN_TIMEOUT"]
    path = os.environ.get("DBQUEUE_CONFIG")
    if path and conf.source("SHUTDOWN_TIMEOUT") != "environment":
        import tomllib  # noqa: PLC0415  # only who has a file pays for that

        with suppress(OSError, ValueError, TypeError):  # then it does not start
            told = tomllib.loads(Path(path).read_text("utf-8"))
            seconds = float(told.get("shutdown-timeout", told.get("shutdown_timeout", seconds)))
    return seconds


def _end(worker: "subprocess.Popen[bytes]", seconds: float) -> None:
    for _ in range(2):
        worker.terminate()
        try:
            worker.wait(seconds)
        except KeyboardInterrupt:
            continue  # told twice, it gives back what runs
        except subprocess.TimeoutExpired:
            break
        else:
            return
    worker.kill()
    worker.wait()


class _Current:
    """The worker of this process, if it has one."""

    worker: WorkerProcess | None = None


def start_worker(command: list[str]) -> None:
    """Start the one of this process, where ``RUN_WITH_SERVER`` is set."""
    wanted = conf["RUN_WITH_SERVER"]
    current = _Current.worker
    if not wanted or (current is not None and current.server == os.getpid()):
        return
    try:
        lock = None if wanted == "each" else HostLock(lock_path())
    except OSError as error:
        logger.warning("no worker runs with this server: its lock file cannot be opened: %s", error)
        return
    _Current.worker = WorkerProcess(command, lock)
    _Current.worker.start()


def stop_worker() -> None:
    """Stop the one of this process; one may be started again after that."""
    current, _Current.worker = _Current.worker, None
    if current is not None:
        current.stop()
