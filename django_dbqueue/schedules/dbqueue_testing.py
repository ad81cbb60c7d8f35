"""What a worker in a test does about schedules, on one database."""

from typing import Any

from django.db import router

from . import firing
from .models import Schedule
from .synchronise import synchronise


def jobs_of(asked: Any) -> None:
    """A test asks for jobs by their queue table, or their task."""


def begin(alias: str) -> None:
    """Store what the code declares, as a worker does when it starts."""
    if router.allow_migrate_model(alias, Schedule):
        synchronise(alias)


def fire(alias: str) -> None:
    """Enqueue what is due."""
    if router.allow_migrate_model(alias, Schedule):
        firing.run_due(alias)


def due_in(alias: str) -> float | None:
    """Seconds until the next tick; None without any."""
    return firing.due_in(alias) if router.allow_migrate_model(alias, Schedule) else None
