"""django-tasks-db, the usual database backend of Django Tasks."""

from django.db import transaction

from benchmarks.adapters import Result
from benchmarks.django_project import Mode
from benchmarks.tasks_project import QUIET, TasksProject

TASKS = {"TASKS": {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}}


class Adapter(TasksProject):
    apps = ("django_tasks_db",)
    package = "django-tasks-db"
    model = "django_tasks_database.DBTaskResult"
    modes = {
        "default": Mode(("db_worker",), {}, TASKS),
        # It closes old connections twice per job: without CONN_MAX_AGE it reconnects each time.
        "best": Mode(
            ("db_worker", "-v", "0", "--interval", "0.1"),
            {"CONN_MAX_AGE": None},
            TASKS | QUIET,
        ),
    }

    def enqueue(self, jobs: int) -> None:
        with transaction.atomic():
            self.each(jobs)

    def left(self) -> int:
        return int(self.table.objects.exclude(status="SUCCESSFUL").count())

    def result(self, jobs: int) -> Result:
        """By the worker's clock: when a claim was made, and its completion."""
        done = self.table.objects.filter(status="SUCCESSFUL")
        return self.span(done, "started_at", "finished_at")
