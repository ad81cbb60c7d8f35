"""django-tasks-db, the usual database backend of Django Tasks."""

from django.db import transaction
from django.db.models import Max, Min
from django.utils.module_loading import import_string

from benchmarks.adapters import Result
from benchmarks.django_project import DjangoProject, Mode


class Adapter(DjangoProject):
    apps = ("django_tasks_db",)
    package = "django-tasks-db"
    model = "django_tasks_database.DBTaskResult"
    modes = {
        "default": Mode(("db_worker",)),
        # It closes old connections twice per job: without CONN_MAX_AGE it reconnects each time.
        "best": Mode(("db_worker", "-v", "0", "--interval", "0.1"), {"CONN_MAX_AGE": None}),
    }
    more_settings = {"TASKS": {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}}

    def enqueue(self, jobs: int) -> None:
        noop = import_string("benchmarks.noop.tasks.noop")
        with transaction.atomic():
            for number in range(jobs):
                noop.enqueue(number)

    def result(self) -> Result:
        """By the worker's clock: when a claim was made, and its completion."""
        done = self.table.objects.filter(status="SUCCESSFUL")
        found = done.aggregate(first=Min("started_at"), last=Max("finished_at"))
        if found["first"] is None:
            return Result(0, 0, 0)
        return Result(done.count(), found["first"].timestamp(), found["last"].timestamp())
