"""Which jobs were enqueued, by what the database holds, also where nobody was told of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connections, router

from .. import events
from ..lifecycle.table import Table
from ..models import Job
from ..worker.served import queue_tables
from .targets import Target, target_of

LINES_MAX = 20  # of jobs in a message


class Enqueued:
    """The jobs that were not there when it began, oldest first; those that a worker of this process
    has claimed also once they are deleted or archived, as they were at their last claim.

    What was rolled back does not count, and what is not committed yet does, on its connection.
    """

    def __init__(self, models: Sequence[type[Job]] = ()) -> None:
        """``models``: those to look at, by default all queue tables that the test may reach."""
        self.models = list(models) or _reachable()
        self._before = {model: _keys(model) for model in self.models}
        self._claimed: dict[type[Job], dict[Any, Job]] = {model: {} for model in self.models}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Meanwhile it notes what workers claim."""
        events.claimed.subscribe(self._note_claimed)
        try:
            yield
        finally:
            events.claimed.receivers.remove(self._note_claimed)

    def _note_claimed(self, table: Table, found: dict[str, list[Any]]) -> None:
        if table.model in self._claimed:
            keys = [job.pk for jobs in found.values() for job in jobs]
            new = [key for key in keys if key not in self._before[table.model]]
            self._claimed[table.model] |= _rows(table.model).in_bulk(new)

    def jobs(self) -> list[Any]:
        """Those of one instant, which on SQLite is a millisecond, by table and key."""
        found: list[Any] = []
        for number, model in enumerate(self.models):
            new = _rows(model).in_bulk(list(_keys(model) - self._before[model]))
            every = self._claimed[model] | new
            found += [(job.created_at, number, key, job) for key, job in every.items()]
        return [job for *_, job in sorted(found, key=lambda one: one[:3])]

    def find(self, asked: Any, values: dict[str, Any]) -> list[Any]:
        """The jobs of a target that hold these values; ``TypeError`` for names it has not."""
        target = target_of(asked)
        target.check(values)
        if target.model not in self.models:
            raise TypeError(
                f"{target} is not looked at: its database is not open to this test, or has no table"
            )
        return [
            job
            for job in self.jobs()
            if type(job) is target.model
            and target.includes(job)
            and all(target.equals(job, name, value) for name, value in values.items())
        ]

    def assert_enqueued(self, asked: Any, values: dict[str, Any]) -> Any:
        """The first that was; ``AssertionError`` that says what was enqueued instead."""
        if found := self.find(asked, values):
            return found[0]
        jobs = self.jobs()
        said = "was enqueued; enqueued were:" if jobs else "was enqueued, nor anything else"
        lines = [f"no {_wanted(asked, values)} {said}", *_lines(jobs, asked, values)]
        raise AssertionError("\n".join(lines))

    def assert_not_enqueued(self, asked: Any, values: dict[str, Any]) -> None:
        """``AssertionError`` that says which were."""
        if found := self.find(asked, values):
            lines = [f"{_wanted(asked, values)} was enqueued:", *_lines(found, asked, values)]
            raise AssertionError("\n".join(lines))


@contextmanager
def captured_jobs(*models: type[Job]) -> Iterator[list[Any]]:
    """The jobs that are enqueued inside the block, in a list that is filled at its end, oldest
    first; without ``models`` those of all queue tables.

    Also what ``bulk_create`` and ``enqueue_many`` have inserted, and what an open transaction of
    this connection's holds; not what was rolled back, and not what is deleted again by the end,
    unless a worker of this process has claimed it.
    """
    enqueued, found = Enqueued(models), list[Any]()
    with enqueued.watching():
        yield found
    found += enqueued.jobs()


def _rows(model: type[Job]) -> Any:
    return model._base_manager.using(router.db_for_write(model))


def _keys(model: type[Job]) -> set[Any]:
    return set(_rows(model).values_list("pk", flat=True))


def _reachable() -> list[type[Job]]:
    """The queue tables whose database is open to this test, and has the table."""
    models = [(model, router.db_for_write(model)) for model in queue_tables()]
    there = {alias: _table_names(alias) for alias in {alias for _, alias in models}}
    return [model for model, alias in models if model._meta.db_table in there[alias]]


def _table_names(alias: str) -> list[str]:
    try:
        return connections[alias].introspection.table_names()
    except AssertionError:  # Django's word for a database that the test does not name
        return []


def _wanted(asked: Any, values: dict[str, Any]) -> str:
    with_values = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return f"{target_of(asked)} with {with_values}" if values else str(target_of(asked))


def _lines(jobs: list[Any], asked: Any, values: dict[str, Any]) -> list[str]:
    """One for each job; those that were asked for show what they hold instead of ``values``."""
    target, lines = target_of(asked), []
    for job in jobs[:LINES_MAX]:
        if type(job) is target.model and target.includes(job):
            lines.append(f"  {target.describe(job, values)}")
        else:
            lines.append(f"  {Target(type(job)).describe(job, ['queue'])} ({job})")
    if len(jobs) > LINES_MAX:
        lines.append(f"  and {len(jobs) - LINES_MAX} more")
    return lines
