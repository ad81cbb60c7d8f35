"""What an instance of a schedule knows of the pause in its row, also after a rollback."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from django.db import connections

if TYPE_CHECKING:
    from .models import Schedule


@dataclass(eq=False)
class WrittenPause:
    """One that a save has written; called once that is committed. ``before`` is the one that holds
    where only this save is rolled back."""

    schedule: "Schedule"
    is_paused: bool
    before: Self | None

    def __call__(self) -> None:
        self.schedule.was_paused = self.is_paused


def awaited(written: WrittenPause | None, using: str) -> WrittenPause | None:
    """The last one that was not rolled back, and whose commit is still to come."""
    hooks = [hook for _, hook, *_ in connections[using].run_on_commit]
    while written is not None and written not in hooks:
        written = written.before
    return written
