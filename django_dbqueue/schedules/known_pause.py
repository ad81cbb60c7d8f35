"""What an instance of a schedule knows of the pause in its row, also after a rollback."""

from dataclasses import dataclass
from typing import Any, Self

from django.db import connections, models, transaction


@dataclass(eq=False)
class WrittenPause:
    """One that a save has written; called once that is committed. ``before`` is the one that holds
    where only this save is rolled back."""

    schedule: "KnowsPause"
    is_paused: bool
    before: Self | None

    def __call__(self) -> None:
        self.schedule.was_paused = self.is_paused


class KnowsPause(models.Model):
    """Tells a pause that was changed on this instance from one that somebody else has changed."""

    # As the row had it, None where it is new; and the last one that was written since.
    was_paused: bool | None = None
    written_pause: WrittenPause | None = None

    class Meta:
        abstract = True

    @classmethod
    def from_db(cls, *args: Any, **kwargs: Any) -> Self:
        schedule = super().from_db(*args, **kwargs)
        schedule.was_paused = schedule.__dict__.get("is_paused")
        return schedule

    def alias(self) -> str:
        """The database on which it is, as is all that it enqueues."""
        raise NotImplementedError

    def refresh_from_db(
        self, using: str | None = None, fields: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        read = None if fields is None else list(fields)
        if {*map(type, (*args, *kwargs.values()))} <= {type(None)}:  # else a queryset says where
            using = using or self.alias()
        super().refresh_from_db(using, read, *args, **kwargs)
        if read is None or "is_paused" in read:
            self.know_pause(self.__dict__.get("is_paused"))

    def know_pause(self, is_paused: bool | None) -> None:
        """It was read from the row."""
        self.was_paused, self.written_pause = is_paused, None

    def note_written_pause(self, is_paused: bool, using: str) -> None:
        """A save has written it, in the open transaction."""
        self.written_pause = WrittenPause(self, is_paused, self._awaited(using))
        transaction.on_commit(self.written_pause, using=using)

    def known_pause(self, using: str) -> bool | None:
        """That of the row, if nobody else has changed it."""
        written = self._awaited(using)
        return self.was_paused if written is None else written.is_paused

    def _awaited(self, using: str) -> WrittenPause | None:
        """The last one that was not rolled back, and whose commit is still to come."""
        hooks = [hook for _, hook, *_ in connections[using].run_on_commit]
        written = self.written_pause
        while written is not None and written not in hooks:
            written = written.before
        return written
