"""``runworker --reload``: a worker that starts again whenever the project's code changes."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

from django.apps import apps
from django.utils.autoreload import get_child_arguments, iter_all_python_module_files

from .options import EXIT_LIMIT_REACHED, EXIT_STOPPED
from .parent import PARENT
from .signalling import Signals, WakeupPipe

logger = logging.getLogger("django_dbqueue")

CHECK_SECONDS = 1.0  # between looks at the files

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
        worker = self.start()
        while True:
            self.wakeup.wait(CHECK_SECONDS)
            if self.signals.stops:
                return self._stop(worker)
            if worker.poll() == EXIT_STOPPED:
                return EXIT_STOPPED
            worker = self.check(worker)

    def check(self, worker: Worker) -> Worker:
        """The worker that is to run from here on."""
        before, self._seen = self._seen, modified()
        for path in self._seen | before:
            # It is new, gone or newer than at the last look.
            if self._seen.get(path) != before.get(path):
                logger.info("%s changed: starting again", path)
                self._stop(worker)
                return self.start()
        code = worker.poll()
        if code == EXIT_LIMIT_REACHED:
            return self.start()
        if code and code != self._told:
            message = "the worker ended with exit code %d; starting it again after the next change"
            logger.error(message, code)
        self._told = code
        return worker

    def start(self) -> Worker:
        self._told = None
        environment = os.environ | {PARENT: str(os.getpid())}
        # In a session of its own, so that Ctrl-C reaches it only through us.
        return subprocess.Popen(get_child_arguments(), env=environment, start_new_session=True)  # noqa: S603

    def _stop(self, worker: Worker) -> int:
        if worker.poll() is None:
            worker.send_signal(signal.SIGTERM)
        while worker.poll() is None:
            self.wakeup.wait(CHECK_SECONDS)
            if self.signals.stops > 1:
                worker.send_signal(signal.SIGTERM)
                self.signals.stops = 1
        return worker.returncode


def modified() -> dict[Path, float]:
    """When each file of the project's code was modified: what is imported, and its apps' rest."""
    installed = tuple({sys.prefix, sys.base_prefix})
    own = [app.path for app in apps.get_app_configs() if not app.path.startswith(installed)]
    rest = [path for folder in own for path in Path(folder).rglob("*.py")]
    times = {}
    for path in [*iter_all_python_module_files(), *rest]:
        try:
            times[Path(path)] = Path(path).stat().st_mtime
        except OSError:
            continue
    return times
