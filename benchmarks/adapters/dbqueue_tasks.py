"""django-dbqueue as the backend of Django Tasks."""

from benchmarks.adapters import Result
from benchmarks.django_project import Mode
from benchmarks.tasks_project import QUIET, TasksProject
from django_dbqueue.states import Status

TASKS = {"TASKS": {"default": {"BACKEND": "django_dbqueue.tasks.backends.DatabaseBackend"}}}
TWO = ("--processes", "2")


class Adapter(TasksProject):
    apps = ("django_dbqueue", "django_dbqueue.tasks")
    package = "django-dbqueue"
    model = "dbqueue_tasks.Task"
    modes = {
        "default": Mode(("runworker", *TWO), {}, TASKS),
        "best": Mode(
            ("runworker", "dbqueue_tasks.Task", "--batch-size", "500", "-v", "0", *TWO),
            {},
            TASKS | QUIET,
        ),
    }

    def enqueue_chunk(self, numbers: range) -> None:
        self.noop.enqueue_many([(number,) for number in numbers])

    def left(self) -> int:
        return int(self.table.objects.filter(status__in=[Status.READY, Status.CLAIMED]).count())

    def result(self, jobs: int) -> Result:
        """By the database's clock: when a claim was stamped, and its completions."""
        return self.span(self.table.objects.done(), "dequeued_time", "finished_at")
