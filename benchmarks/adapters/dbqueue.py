"""django-dbqueue, this library."""

import os
from collections.abc import Iterator
from typing import Any

from django.db.backends.signals import connection_created

from benchmarks import stopwatch
from benchmarks.adapters import BULK, TRACE_VARIABLE, WORKER_VARIABLE, Result
from benchmarks.django_project import DjangoProject, Mode
from django_dbqueue.states import Status

# Larger batches gain little more, and repeat more jobs after a kill.
BEST = ("--batch-size", "500", "-v", "0")
QUEUES = {
    "two queues": ("first", "second"),
    "many queues": tuple(f"of customer {number:03}" for number in range(1000)),
}
NAPS = ("runworker", "noop.Nap", "-v", "0", "--processes")
POLLING = {"DBQUEUE": {"NOTIFY": False}}


def trace(connection: Any, **_: object) -> None:
    """Write a line for each statement that SQLite runs, whatever thread and process asks for it."""
    file = os.open(os.environ[TRACE_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    connection.connection.set_trace_callback(lambda sql: os.write(file, sql[:40].encode() + b"\n"))


class Adapter(DjangoProject):
    apps: tuple[str, ...] = ("django_dbqueue", "benchmarks.noop")
    package = "django-dbqueue"
    model = "noop.Noop"
    modes = {
        "default": Mode(("runworker",)),
        "best": Mode(("runworker", "noop.Noop", *BEST)),
        "best, letting go": Mode(("runworker", "noop.Noop", *BEST)),
        "best, durable": Mode(("runworker", "noop.Noop", *BEST), durability="FULL"),
        "default, two processes": Mode(("runworker", "--processes", "2")),
        "best, two processes": Mode(("runworker", "noop.Noop", *BEST, "--processes", "2")),
        "best, two queues": Mode(("runworker", "noop.Noop:{queue}", *BEST)),
        "best, many queues": Mode(("runworker", "noop.Noop", *BEST)),
        "default, many queues": Mode(("runworker",)),
        **{f"naps, {n} processes": Mode((*NAPS, n)) for n in ("4", "1-4")},
        "naps, 1 process": Mode((*NAPS, "1")),
        "polling": Mode(("runworker",), {}, POLLING),
    }

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        self.queues = QUEUES.get(mode.rpartition(", ")[2], ("default",))
        if mode.startswith("naps"):
            self.model = "noop.Nap"

    def enqueue(self, jobs: int) -> None:
        for chunk in self._chunks(jobs):
            self.table.objects.bulk_create(
                [self.table(number=n, queue=self.queues[n % len(self.queues)]) for n in chunk]
            )

    def _chunks(self, jobs: int) -> Iterator[range]:
        for start in range(0, jobs, BULK):
            yield range(start, min(start + BULK, jobs))

    def command(self) -> tuple[str, ...]:
        queue = self.queues[int(os.environ.get(WORKER_VARIABLE, "0")) % len(self.queues)]
        return tuple(word.format(queue=queue) for word in super().command())

    def work(self) -> None:
        if TRACE_VARIABLE in os.environ:
            connection_created.connect(trace)
        if stopwatch.VARIABLE in os.environ:
            stopwatch.start()
        super().work()

    def left(self) -> int:
        waiting = self.table.objects.filter(status__in=[Status.READY, Status.CLAIMED])
        return int(waiting.filter(queue__in=self.queues).count())

    def result(self, jobs: int) -> Result:
        """By the database's clock: when a claim was stamped, and its completions."""
        return self.span(self.table.objects.done(), "dequeued_time", "finished_at")
