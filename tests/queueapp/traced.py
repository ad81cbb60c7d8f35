"""Queue tables that keep the trace in which their jobs were enqueued."""

import asyncio
from collections.abc import Sequence

from asgiref.sync import sync_to_async
from django.db import models

from django_dbqueue.backoff import Fixed
from django_dbqueue.exceptions import Retry
from django_dbqueue.models import Job, Traced


class Watched(Traced, Job):
    """Makes a span of its own, and does what ``action`` says."""

    number = models.IntegerField(default=0)
    action = models.CharField(max_length=20, blank=True)

    class Meta(Job.Meta):
        pass

    class Policy:
        max_attempts = 2
        backoff = Fixed(60)

    def run(self) -> None:
        note(self.number)
        act(self.action, self.number)


class WatchedBatch(Traced, Job):
    """All jobs of a claim at once."""

    class Meta(Job.Meta):
        pass

    @classmethod
    def run_batch(cls, jobs: Sequence["WatchedBatch"]) -> None:
        note(len(jobs))


class WatchedCoroutine(Traced, Job):
    """The same as a coroutine, which lets others have their turns meanwhile."""

    number = models.IntegerField(default=0)
    action = models.CharField(max_length=20, blank=True)

    class Meta(Job.Meta):
        pass

    class Policy:
        max_attempts = 2
        backoff = Fixed(60)

    async def run(self) -> None:  # type: ignore[override]
        for _ in range(3):
            await asyncio.sleep(0.01)
        note(self.number)
        act(self.action, self.number)
        if self.action == "complete":
            await sync_to_async(self.complete)()


def act(action: str, number: int) -> None:
    if action == "fail":
        raise LookupError(f"nothing is known of {number}")
    if action == "report":
        report(number)
    if action == "retry":
        raise Retry(60, "come back later")


def report(number: int) -> None:
    """Tell Sentry's scope whose job it is, and fail."""
    import sentry_sdk

    sentry_sdk.set_tag("mine", str(number))
    sentry_sdk.add_breadcrumb(message=f"crumb {number}")
    raise LookupError(f"nothing is known of {number}")


def note(number: int) -> None:
    from opentelemetry import trace

    with trace.get_tracer("tests").start_as_current_span(f"inside {number}"):
        pass
