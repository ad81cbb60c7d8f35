"""Queue tables for the sweeps: every way that a job can go, each run noted in a file."""

from pathlib import Path

from django.db import models

from django_dbqueue.backoff import Fixed
from django_dbqueue.exceptions import Bury
from django_dbqueue.models import ArchivedJob, Job

from .faults import record


class Noted(Job):
    """Leaves its name in the file ``log`` each time that it runs."""

    name = models.CharField(max_length=30)
    action = models.CharField(max_length=20, blank=True)
    log = models.CharField(max_length=500, blank=True)

    class Meta(Job.Meta):
        abstract = True

    def run(self) -> None:
        is_first = self.name not in Path(self.log).read_text().split()
        record(self.log, self.name)
        if self.action:
            getattr(self, f"do_{self.action}")(is_first)


class Chore(Noted):
    """Is kept for an hour, then archived; holds its dedup_key until it is done."""

    class Meta(Noted.Meta):
        pass

    class Policy:
        time_to_run = 60
        max_attempts = 3
        backoff = Fixed(600)
        dedup_until = "done"
        archive = "queueapp.ArchivedChore"
        archive_after = 3600
        prune_after = 7200

    def do_fail(self, is_first: bool) -> None:
        if self.attempts == 1:
            raise RuntimeError("it works the second time")

    def do_bury(self, is_first: bool) -> None:
        raise Bury("for a person")

    def do_touch(self, is_first: bool) -> None:
        self.touch()

    def do_release(self, is_first: bool) -> None:
        if is_first:
            self.release()

    def do_complete(self, is_first: bool) -> None:
        self.complete()

    def do_save(self, is_first: bool) -> None:
        self.action = ""
        self.save()


class ArchivedChore(ArchivedJob):
    name = models.CharField(max_length=30)
    action = models.CharField(max_length=20, blank=True)
    log = models.CharField(max_length=500, blank=True)

    class Meta(ArchivedJob.Meta):
        pass


class Errand(Noted):
    """Is written at once and is gone when it is done."""

    class Meta(Noted.Meta):
        pass

    class Policy:
        finish = "each"
        prune_after = 0
