"""What a task with ``takes_context`` gets: its result so far, and verbs for its own job."""

from dataclasses import dataclass
from typing import Any, NoReturn

from asgiref.sync import sync_to_async

from ..exceptions import Bury, Retry
from .compat import TaskContext
from .progress import write_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(TaskContext):  # type: ignore[misc]
    """``job`` is the row of the queue table; None where another backend runs the task, and then
    ``touch`` and ``progress`` do nothing. Coroutines await ``atouch`` and ``aprogress``."""

    job: Any = None

    def retry(self, delay: float | None = None, reason: str = "") -> NoReturn:
        """End this attempt; the task is tried again after ``delay`` seconds, by default after what
        its backoff says, as long as it has attempts left."""
        raise Retry(delay, reason)

    def bury(self, reason: str = "") -> NoReturn:
        """End the task as failed, whatever attempts are left."""
        raise Bury(reason)

    def touch(self) -> None:
        """Restart its time to run. ``ClaimLost`` where another worker has the task by now."""
        if self.job is not None:
            self.job.touch()

    async def atouch(self) -> None:
        await sync_to_async(self.touch)()

    async def aprogress(self, done: float, total: float | None = None, note: str = "") -> None:
        await sync_to_async(self.progress)(done, total, note)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far it is, for the admin and ``dbqueue explain``; at most once a second is
        written, and none while the database is away. Inside ``atomic()``, and ``exactly_once``,
        others see it after the commit."""
        if self.job is not None:
            write_progress(self.job, done, total, note)
