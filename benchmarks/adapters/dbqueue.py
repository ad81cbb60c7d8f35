"""django-dbqueue, this library."""

from django.db.models import Max, Min

from benchmarks.adapters import Result
from benchmarks.django_project import DjangoProject, Mode

BULK = 1000


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

    def result(self) -> Result:
        """By the database's clock: when a claim was stamped, and its completions."""
        done = self.table.objects.done()
        found = done.aggregate(first=Min("dequeued_time"), last=Max("finished_at"))
        if found["first"] is None:
            return Result(0, 0, 0)
        return Result(done.count(), found["first"].timestamp(), found["last"].timestamp())
