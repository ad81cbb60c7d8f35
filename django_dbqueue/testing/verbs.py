"""What a test says about jobs: the same words in unittest and in pytest."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

from ..models import Job
from .clock import current_clock, virtual_clock
from .enqueued import Enqueued, captured_jobs
from .inline import MONTH, InlineWorker


class Jobs:
    """The jobs of one test, from where it began."""

    def __init__(self) -> None:
        self._enqueued = Enqueued()

    @classmethod
    @contextmanager
    def watched(cls) -> Iterator[Self]:
        jobs = cls()
        with jobs._enqueued.watching():
            yield jobs

    def run_all(self, *tables: type[Job] | str) -> int:
        """Run what is ready, and what becomes ready by that, until nothing is; how many jobs.

        Of these queue tables, as classes or by the names that ``runworker`` takes
        (``"shop.Thumbnail:slow"``); without any, of all that the test may reach.
        """
        with InlineWorker(*self._names(tables)) as worker:
            return worker.run()

    def run_until_settled(self, *tables: type[Job] | str, within: float = MONTH) -> int:
        """The same, and delayed jobs and retries too: a virtual clock goes to when each is due.
        Schedules that the test has stored tick on the way.

        It begins at the present; within ``virtual_clock()`` it is that clock. ``StillWaiting``
        where it goes on for longer than ``within`` seconds of that clock.
        """
        clock = current_clock()
        if clock is None:
            with virtual_clock():
                return self.run_until_settled(*tables, within=within)
        with InlineWorker(*self._names(tables), clock=clock) as worker:
            return worker.drain(within)

    def run_for(self, seconds: float, *tables: type[Job] | str) -> int:
        """What a worker would do in so many seconds of a virtual clock: schedules tick, also those
        that the code declares, and delayed jobs run when they are due; how many jobs.

        It begins at the present; within ``virtual_clock()`` it is that clock.
        """
        clock = current_clock()
        if clock is None:
            with virtual_clock():
                return self.run_for(seconds, *tables)
        with InlineWorker(*self._names(tables), clock=clock) as worker:
            return worker.run_for(seconds)

    def assert_enqueued(self, target: Any, /, **values: Any) -> Any:
        """A job of this queue table, with these values in its columns, was enqueued since the test
        began; the first one. Columns hold what they hold by now: a claim empties ``dedup_key``."""
        return self._enqueued.assert_enqueued(target, values)

    def assert_not_enqueued(self, target: Any, /, **values: Any) -> None:
        """No such job was enqueued since the test began."""
        self._enqueued.assert_not_enqueued(target, values)

    def captured_jobs(self, *models: type[Job]) -> AbstractContextManager[list[Any]]:
        return captured_jobs(*models)

    def _names(self, tables: tuple[type[Job] | str, ...]) -> list[str]:
        if not tables:
            return self._enqueued.names()
        names: list[str] = []
        for one in tables:
            if isinstance(one, str):
                name = one
            else:
                concrete: Any = one._meta.concrete_model
                name = concrete._meta.label
            names += self._enqueued.names_of(name) or [name]
        return names
