"""django-dbqueue, this library."""

from benchmarks.adapters import BULK, Result
from benchmarks.django_project import DjangoProject, Mode
from django_dbqueue.states import Status


class Adapter(DjangoProject):
    apps = ("django_dbqueue", "benchmarks.noop")
    package = "django-dbqueue"
    model = "noop.Noop"
    modes = {
        "default": Mode(("runworker",)),
        # Larger batches gain little more, and repeat more jobs after a kill.
        "best": Mode(("runworker", "noop.Noop", "--batch-size", "500", "-v", "0")),
    }

    def enqueue(self, jobs: int) -> None:
        for start in range(0, jobs, BULK):
            numbers = range(start, min(start + BULK, jobs))
            self.table.objects.bulk_create([self.table(number=number) for number in numbers])

    def left(self) -> int:
        return int(self.table.objects.exclude(status=Status.DONE).count())

    def result(self, jobs: int) -> Result:
        """By the database's clock: when a claim was stamped, and its completions."""
        return self.span(self.table.objects.done(), "dequeued_time", "finished_at")
