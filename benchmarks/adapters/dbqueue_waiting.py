"""django-dbqueue as the backend of Django Tasks, with tasks that wait for a second."""

from typing import Any

from django.utils.module_loading import import_string

from benchmarks.adapters import Result, dbqueue_tasks
from benchmarks.django_project import Mode
from benchmarks.tasks_project import QUIET

COMMAND = ("runworker", "dbqueue_tasks.AsyncTask", "-v", "0")
SETTINGS = dbqueue_tasks.TASKS | QUIET


class Adapter(dbqueue_tasks.Adapter):
    model = "dbqueue_tasks.AsyncTask"
    modes = {
        "coroutines": Mode((*COMMAND, "--coroutines", "1000"), {}, SETTINGS),
        "threads": Mode((*COMMAND, "--threads", "50"), {}, SETTINGS),
    }

    @property
    def noop(self) -> Any:
        return import_string("benchmarks.noop.tasks.wait")

    def result(self, jobs: int) -> Result:
        """Timed as for those who keep no times."""
        return Result(jobs - self.left(), None)
