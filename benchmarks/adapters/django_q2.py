"""django-q2 with its ORM broker."""

from django.db import transaction
from django.utils.module_loading import import_string

from benchmarks.adapters import Result, Timeless
from benchmarks.django_project import DjangoProject, Mode
from benchmarks.marks import mark

COMMON = {"orm": "default", "timeout": 50}  # its own retry, 60 s, must be longer
BEST = COMMON | {"bulk": 50, "queue_limit": 200, "save_limit": -1, "log_level": "ERROR"}


class Adapter(Timeless, DjangoProject):
    """Its finished tasks hold the time when they ended, but are saved later, by another process."""

    apps = ("django_q",)
    package = "django-q2"
    model = "django_q.OrmQ"
    modes = {
        "default": Mode(("qcluster",), {}, {"Q_CLUSTER": COMMON}),
        # Tasks in bulk, no record of success, and no new connection for each task.
        "best": Mode(("qcluster",), {"CONN_MAX_AGE": None}, {"Q_CLUSTER": BEST}),
    }

    def enqueue(self, jobs: int) -> None:
        async_task = import_string("django_q.tasks.async_task")
        with transaction.atomic():
            for number in range(jobs):
                async_task(mark, number)

    def left(self) -> int:
        return int(self.table.objects.count())

    def result(self, jobs: int) -> Result:
        return Timeless.result(self, jobs)
