"""The no-op job of django-dbqueue."""

import asyncio
import time

from django.db import models

from benchmarks import marks
from benchmarks.adapters import NAP_SECONDS
from django_dbqueue.models import Job


class Noop(Job):
    number = models.IntegerField()

    class Meta(Job.Meta):
        pass

    def run(self) -> None:
        marks.mark(self.number)


class Nap(Job):
    """A job that waits for somebody, as most do."""

    number = models.IntegerField()

    class Meta(Job.Meta):
        pass

    def run(self) -> None:
        time.sleep(0.02)
        marks.mark(self.number)


class AsyncNap(Job):
    """The same for a coroutine."""

    number = models.IntegerField()

    class Meta(Job.Meta):
        pass

    async def run(self) -> None:  # type: ignore[override]
        marks.mark(self.number)
        await asyncio.sleep(NAP_SECONDS)


class Plain(models.Model):
    """A model that is no queue."""

    number = models.IntegerField()

    def __str__(self) -> str:
        return str(self.number)
