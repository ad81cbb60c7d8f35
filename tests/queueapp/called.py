"""A queue table whose rows call functions of the test that runs them."""

from collections.abc import Callable
from typing import Any

from django.db import models

from django_dbqueue.backoff import Fixed
from django_dbqueue.models import Job

from .once import Effect

# By name.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


class Called(Job):
    """Calls ``function`` with ``arguments``, in the test's own process."""

    function = models.CharField(max_length=100)
    arguments = models.JSONField(default=dict)

    class Meta(Job.Meta):
        pass

    class Policy:
        max_attempts = 3
        backoff = Fixed(60)

    def run(self) -> Any:
        return FUNCTIONS[self.function](**self.arguments)


def call(function: Callable[..., Any], **arguments: Any) -> Called:
    """Enqueue it."""
    FUNCTIONS[function.__name__] = function
    job: Called = Called.objects.create(function=function.__name__, arguments=arguments)
    return job


def write(number: int) -> None:
    """Leave an effect; a second one with this number is refused."""
    Effect.objects.create(job=number, code=number)


def effects() -> list[int]:
    """Of which jobs, or numbers, there are some."""
    return list(Effect.objects.order_by("job").values_list("job", flat=True))
