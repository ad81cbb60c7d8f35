"""Which jobs were enqueued, by what the database holds, also where nobody was told of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connections

from .. import events
from ..lifecycle.table import Table
from ..models import Job
from ..worker.served import queue_tables
from .targets import Target, target_of

LINES_MAX = 20  # of jobs in a message
Place = tuple[type[Job], str]  # a queue table, and a database that has it


class Enqueued:
    """The jobs that were not there when it began, oldest first; those that a worker of this process
    has claimed also once they are deleted or archived, as they were at their last claim.

    What was rolled back does not count, and what is not committed yet does, on its connection.
    """

    def __init__(self, models: Sequence[type[Job]] = ()) -> None:
        """``models``: those to look at, by default all queue tables that the test may reach."""
        self.places = _reachable(models or queue_tables()) or _written(models)
        self._before = {place: _keys(place) for place in self.places}
        self._claimed: dict[Place, dict[Any, Job]] = {place: {} for place in self.places}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Meanwhile it notes what workers claim."""
        events.claimed.subscribe(self._note_claimed)
        try:
            yield
        finally:
            events.claimed.receivers.remove(self._note_claimed)

    def _note_claimed(self, table: Table, found: dict[str, list[Any]]) -> None:
        place = table.model, table.connection.alias
        if place in self._claimed:
            keys = [job.pk for jobs in found.values() for job in jobs]
            new = [key for key in keys if key not in self._before[place]]
            self._claimed[place] |= _rows(place).in_bulk(new)

    def names(self) -> list[str]:
        """Of all tables, where the test may reach them, as ``runworker`` takes them."""
        return [f"{model._meta.label}@{alias}" for model, alias in self.places]

    def names_of(self, name: str) -> list[str]:
        """The same of a name of ``runworker``; none where it says on which database it is."""
        label, colon, queue = name.partition(":")
        of = [(model._meta, alias) for model, alias in self.places]
        found = [alias for its, alias in of if label.lower() in {its.label_lower, its.model_name}]
        return [f"{label}@{alias}{colon}{queue}" for alias in dict.fromkeys(found)]

    def jobs(self) -> list[Any]:
        """Those of one instant, which on SQLite is a millisecond, by table and key."""
        found: list[Any] = []
        for number, place in enumerate(self.places):
            new = _rows(place).in_bulk(list(_keys(place) - self._before[place]))
            every = self._claimed[place] | new
            found += [(job.created_at, number, key, job) for key, job in every.items()]
        return [job for *_, job in sorted(found, key=lambda one: one[:3])]

    def find(self, asked: Any, values: dict[str, Any]) -> list[Any]:
        """The jobs of a target that hold these values; ``TypeError`` for names it has not."""
        target = target_of(asked)
        target.check(values)
        if target.model not in {model for model, _ in self.places}:
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
    first by the clocks of their databases; without ``models`` those of all queue tables.

    Also what ``bulk_create`` and ``enqueue_many`` have inserted, and what an open transaction of
    this connection's holds; not what was rolled back, and not what is deleted again by the end,
    unless a worker of this process has claimed it.
    """
    enqueued, found = Enqueued(models), list[Any]()
    with enqueued.watching():
        yield found
    found += enqueued.jobs()


def _rows(place: Place) -> Any:
    model, alias = place
    return model._base_manager.using(alias)


def _keys(place: Place) -> set[Any]:
    return set(_rows(place).values_list("pk", flat=True))


def _written(models: Sequence[type[Job]]) -> list[Place]:
    return [(model, alias) for model in models for alias in model.written_databases()]


def _reachable(models: Sequence[type[Job]]) -> list[Place]:
    """Where a table is on a database that is open to this test."""
    places = _written(models)
    there = {alias: _table_names(alias) for alias in {alias for _, alias in places}}
    return [(model, alias) for model, alias in places if model._meta.db_table in there[alias]]


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
