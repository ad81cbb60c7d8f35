"""This library, next to the rows that ``benchmarks.growth.rows`` makes."""

import os

from django.db.models import Max

from benchmarks.adapters import Result, dbqueue
from benchmarks.django_project import Mode
from benchmarks.growth import ROWS_VARIABLE
from benchmarks.growth.rows import execute, last_key
from django_dbqueue.states import Status

MODELS = {"empty": "growth.Lean", "full": "growth.Full"}


class Adapter(dbqueue.Adapter):
    """Its modes are the two tables, and how they are worked at."""

    apps = (*dbqueue.Adapter.apps, "benchmarks.growth")
    modes = {
        f"{table}, {how}": Mode(("runworker", f"{model}:default", *options))
        for table, model in MODELS.items()
        for how, options in (("best", dbqueue.BEST), ("default", ()))
    }

    def __init__(self, mode: str) -> None:
        self.is_large = mode.startswith("full")
        self.model = MODELS["full" if self.is_large else "empty"]
        super().__init__(mode)
        self.rows = int(os.environ[ROWS_VARIABLE])

    @property
    def first(self) -> int:
        """The least key of a job that is measured."""
        return last_key(self.rows) + 1 if self.is_large else 1

    @property
    def last(self) -> int:
        """The greatest key so far."""
        found = self.table.objects.aggregate(last=Max("pk"))["last"]
        return int(found or 0)

    def empty(self) -> None:
        execute(f"DELETE FROM {self.table._meta.db_table} WHERE id >= {self.first}")

    def left(self) -> int:
        unfinished = self.table.objects.exclude(status=Status.DONE)
        return int(unfinished.filter(pk__gte=self.first).count())

    def result(self, jobs: int) -> Result:
        done = self.table.objects.done().filter(pk__gte=self.first)
        return self.span(done, "dequeued_time", "finished_at")
