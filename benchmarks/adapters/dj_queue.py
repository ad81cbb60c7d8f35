"""dj-queue, a database backend of Django Tasks after Rails' Solid Queue."""

import os
from typing import Any

from benchmarks.adapters import URL_VARIABLE, Timeless
from benchmarks.django_project import Mode
from benchmarks.tasks_project import QUIET, TasksProject

# More threads wait for SQLite's one writer.
IS_SQLITE = os.environ[URL_VARIABLE].startswith("sqlite")
THREADS = {"threads": 3, "prefetch_multiplier": 20}
MORE = {"threads": 8, "prefetch_multiplier": 10}
WORKERS = {"processes": 2} | (THREADS if IS_SQLITE else MORE)
BEST = {"workers": [WORKERS], "async_thread_sensitive": True}
BACKEND = {"BACKEND": "dj_queue.backend.DjQueueBackend", "OPTIONS": BEST}


class Adapter(Timeless, TasksProject):
    """It keeps its finished jobs, and the times of their ends, but not of their starts."""

    apps = ("dj_queue",)
    package = "dj-queue"
    model = "dj_queue.Job"
    modes = {
        # aenqueue() closes old connections: without CONN_MAX_AGE it connects each time.
        "best": Mode(
            ("dj_queue", "-v", "0", "--only-work"),
            {"CONN_MAX_AGE": None},
            {"TASKS": {"default": BACKEND}} | QUIET,
        ),
    }

    @property
    def filled(self) -> list[Any]:
        return [self.table, self.table._meta.apps.get_model("dj_queue.ReadyExecution")]

    def enqueue_chunk(self, numbers: range) -> None:
        noop = self.noop
        noop.get_backend().enqueue_all([(noop, [number], {}) for number in numbers])

    def left(self) -> int:
        return int(self.table.objects.filter(finished_at=None).count())
