"""dj-queue, a database backend of Django Tasks after Rails' Solid Queue."""

from typing import Any

from django.apps import apps

from benchmarks.adapters import Timeless
from benchmarks.django_project import Mode
from benchmarks.tasks_project import TasksProject

WORKERS = {"processes": 2, "threads": 3, "prefetch_multiplier": 2}
BEST = {"workers": [WORKERS], "async_thread_sensitive": True}


def tasks(options: dict[str, Any]) -> dict[str, Any]:
    return {"TASKS": {"default": {"BACKEND": "dj_queue.backend.DjQueueBackend", "OPTIONS": options}}}


class Adapter(Timeless, TasksProject):
    """It keeps its finished jobs, and the times of their ends, but not of their starts."""

    apps = ("dj_queue",)
    package = "dj-queue"
    model = "dj_queue.Job"
    modes = {
        # aenqueue() closes old connections: without CONN_MAX_AGE it connects each time.
        "best": Mode(("dj_queue", "-v", "0", "--only-work"), {"CONN_MAX_AGE": None}, tasks(BEST)),
    }

    @property
    def filled(self) -> list[Any]:
        return [self.table, apps.get_model("dj_queue.ReadyExecution")]

    def enqueue_chunk(self, numbers: range) -> None:
        noop = self.noop
        noop.get_backend().enqueue_all([(noop, [number], {}) for number in numbers])

    def left(self) -> int:
        return int(self.table.objects.filter(finished_at=None).count())
