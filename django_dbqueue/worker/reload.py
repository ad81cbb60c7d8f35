"""``runworker --reload``: a worker that starts afresh whenever the project's code changes."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from django.apps import apps
from django.utils.autoreload import get_child_arguments, iter_all_python_module_files

from .signalling import Signals, WakeupPipe
from .stop_reasons import ENOUGH, RELOADER, STOPPED

logger = logging.getLogger("django_dbqueue")

LOOK_EVERY = 1.0  # seconds

Times = dict[Path, float]
Worker: TypeAlias = "subprocess.Popen[bytes]"


class Reloader:
    """Watches the files, and runs the worker itself as a child process.

    A worker that does not start (a typo) is started again after the next change.
    """

    def __init__(self) -> None:
        self.wakeup = WakeupPipe()
        self.signals = Signals(self.wakeup)
        self._seen = modified()
        self._told: int | None = None

    def run(self) -> int:
        """Until TERM or INT, or until the worker is done; the worker's exit code."""
        self.signals.install()
        worker = self._start()
        while True:
            self.wakeup.wait(LOOK_EVERY)
            if self.signals.stops:
                return self._stop(worker)
            if worker.poll() == STOPPED:
                return STOPPED
            worker = self._next(worker)

    def _next(self, worker: Worker) -> Worker:
        """The worker that is to run from here on."""
        if changed := self._changed():
            logger.info("%s changed: starting afresh", changed)
            self._stop(worker)
            return self._start()
        code = worker.poll()
        if code == ENOUGH:
            return self._start()
        if code and code != self._told:
            message = "the worker ended with exit code %d; starting it again after the next change"
            logger.error(message, code)
        self._told = code
        return worker

    def _start(self) -> Worker:
        self._told = None
        environment = os.environ | {RELOADER: str(os.getpid())}
        # In a session of its own, so that Ctrl-C reaches it only through us.
        return subprocess.Popen(get_child_arguments(), env=environment, start_new_session=True)  # noqa: S603

    def _stop(self, worker: Worker) -> int:
        if worker.poll() is None:
            worker.send_signal(signal.SIGTERM)
        while worker.poll() is None:
            self.wakeup.wait(LOOK_EVERY)
            if self.signals.stops > 1:
                worker.send_signal(signal.SIGTERM)
                self.signals.stops = 1
        return worker.returncode

    def _changed(self) -> str:
        """The name of a file that is new, gone or newer than at the last look."""
        now, before = modified(), self._seen
        self._seen = now
        return next((str(path) for path in now | before if now.get(path) != before.get(path)), "")


def modified() -> Times:
    """When each file of the project's code was modified: what is imported, and its apps' rest."""
    times: Times = {}
    for path in [*iter_all_python_module_files(), *_files_of_apps()]:
        try:
            times[Path(path)] = Path(path).stat().st_mtime
        except OSError:
            continue
    return times


def _files_of_apps() -> Iterator[Path]:
    installed = tuple({sys.prefix, sys.base_prefix})
    for config in apps.get_app_configs():
        if not config.path.startswith(installed):
            yield from Path(config.path).rglob("*.py")
