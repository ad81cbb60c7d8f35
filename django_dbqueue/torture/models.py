"""The queue table that is tortured. Each job has a mark that no other has, and a action to do."""

import threading
from typing import ClassVar, Self

from django.db import models, transaction

from ..backoff import Fixed
from ..exceptions import Bury, Retry
from ..models import ArchivedJob, Job
from .recorder import tell

_nap = threading.Event()

RETRY_SECONDS = 0.3  # seconds until another try


class TestJobError(Exception):
    """A action that fails."""


class TestJobFields(models.Model):
    mark = models.CharField(max_length=40)
    action = models.CharField(max_length=10, default="work")
    seconds = models.FloatField(default=0)
    given_back = models.BooleanField(default=False)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.mark


class TestJob(TestJobFields, Job):
    """Does its action, and tells the history before, in the middle and afterwards."""

    class Meta(Job.Meta):
        pass

    class Policy:
        time_to_run = 45
        max_attempts = 20
        backoff = Fixed(RETRY_SECONDS)
        archive = "dbqueue_torture.ArchivedTestJob"
        archive_after = 5

    def run(self) -> None:
        known = {"key": self.pk, "mark": self.mark, "owner": self.claim_owner}
        tell("start", "invoke", **known, attempt=self.attempts, crashes=self.crashes)
        done = False
        try:
            _nap.wait(self.seconds / 2)
            tell("effect", "ok", **known)
            _nap.wait(self.seconds / 2)
            getattr(self, f"do_{self.action}")()
            done = True
        finally:
            tell("end", "ok" if done else "fail", **known)

    def do_work(self) -> None:
        pass

    def do_touch(self) -> None:
        self.touch()

    def do_fail(self) -> None:
        if self.attempts == 1:
            raise TestJobError("the first attempt fails")

    def do_retry(self) -> None:
        if self.attempts == 1:
            raise Retry(RETRY_SECONDS, "not now")

    def do_bury(self) -> None:
        raise Bury("for a person to see")

    def do_release(self) -> None:
        if not self.given_back:
            self.given_back = True
            self.save()
            self.release(delay=RETRY_SECONDS)
            tell("release", "ok", key=self.pk)

    def do_exact(self) -> None:
        """Its effect and its completion in one transaction."""
        with transaction.atomic():
            Effect.objects.create(mark=self.mark)
            self.complete()


class ArchivedTestJob(TestJobFields, ArchivedJob):
    class Meta(ArchivedJob.Meta):
        pass


class Effect(models.Model):
    """What a job has done to the database; nothing but the queue keeps it from being done twice."""

    mark = models.CharField(max_length=40)

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    def __str__(self) -> str:
        return self.mark
