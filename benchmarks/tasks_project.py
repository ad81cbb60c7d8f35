"""What backends of Django Tasks share: the no-op task, and ways to enqueue it that are timed."""

import asyncio
import time
from typing import Any

from django.utils.module_loading import import_string

from benchmarks.adapters import BULK, WARM
from benchmarks.django_project import DjangoProject

# Django's own line for each start and each end of a task: made, and by default thrown away.
QUIET = {"LOGGING": {"version": 1, "loggers": {"django.tasks": {"level": "ERROR"}}}}


class TasksProject(DjangoProject):
    """The base of their adapters."""

    @property
    def noop(self) -> Any:
        return import_string("benchmarks.noop.tasks.noop")

    def enqueue_seconds(self, way: str, jobs: int) -> float:
        """How long so many take, each ``enqueue()`` and each 1,000 in bulk a transaction."""
        self.empty()
        if way == "aenqueue":
            seconds = asyncio.run(self.await_each(jobs))
        else:
            enqueue = self.each if way == "enqueue" else self.in_bulk
            enqueue(WARM)
            start = time.monotonic()
            enqueue(jobs)
            seconds = time.monotonic() - start
        written = self.table.objects.count()
        if written != WARM + jobs:
            raise SystemExit(f"{way}: {written} rows of {WARM + jobs} tasks")
        return seconds

    def each(self, jobs: int) -> None:
        noop = self.noop
        for number in range(jobs):
            noop.enqueue(number)

    async def await_each(self, jobs: int) -> float:
        noop = self.noop
        for number in range(WARM):
            await noop.aenqueue(number)
        start = time.monotonic()
        for number in range(jobs):
            await noop.aenqueue(number)
        return time.monotonic() - start

    def in_bulk(self, jobs: int) -> None:
        for start in range(0, jobs, BULK):
            self.enqueue_chunk(range(start, min(start + BULK, jobs)))

    def enqueue_chunk(self, numbers: range) -> None:
        """By the call that the backend offers for many tasks."""
        raise NotImplementedError

    def enqueue(self, jobs: int) -> None:
        self.in_bulk(jobs)
