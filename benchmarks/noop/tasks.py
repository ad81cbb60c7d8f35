"""The no-op job of Django Tasks, and one that waits for a second.

They are in Django itself from 6.0 on, and in a package before.
"""

import asyncio

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task  # type: ignore[import-not-found,no-redef,unused-ignore]

from benchmarks.marks import mark


@task()
def noop(number: int) -> None:
    mark(number)


@task()
async def wait(number: int) -> None:
    mark(number)
    await asyncio.sleep(1)
