"""A queue table whose runs leave something in their rows."""

import math

from django.db import models

from django_dbqueue.models import Job


class Answering(Job):
    """Leaves an answer in its row, whatever becomes of it."""

    action = models.CharField(max_length=20, blank=True)
    answer = models.JSONField(default=dict, db_column="what it said")
    note = models.TextField(blank=True)

    class Meta(Job.Meta):
        pass

    class Policy:
        results = ("answer", "note")

    def run(self) -> None:
        self.answer = {"said": [self.action, "ü", self.attempts]}
        self.note = "n"
        getattr(self, f"do_{self.action}")()

    def do_return(self) -> None:
        pass

    def do_raise(self) -> None:
        raise ValueError("no")

    def do_bury(self) -> None:
        self.bury("no")

    def do_release(self) -> None:
        self.release(60)

    def do_complete(self) -> None:
        self.complete()

    def do_nonsense(self) -> None:
        self.answer = {1, 2}

    def do_nan(self) -> None:
        self.answer = {"share": math.nan}

    def do_none(self) -> None:
        self.note = None  # type: ignore[assignment]  # on purpose
