"""All that the first page shows, and machines are told, read once: each look is bounded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import Error

from ..exceptions import first_line
from ..lifecycle.table import table_of
from ..metrics.due import DueJobs, due_jobs, next_by_queue
from ..metrics.time_series import times_of_hour
from ..states import Status
from ..worker.served import Served, all_served
from .failures import Failures, failures
from .last_hour import OF_WORKERS, LastHour, Mark, last_hour_of, marks_of_pauses
from .overview import WHAT_RUNS, Overview, QueueOverview, database_name, overview
from .running import Slot, slots, with_queues
from .verdict import Verdict, unnamed, verdict

T = TypeVar("T")


@dataclass
class Glance:
    """``due``: by the title of the queue table, where it has delayed jobs; ``moments``: when each
    database was asked, by its own clock."""

    found: Overview
    failures: Failures
    verdict: Verdict
    last_hour: LastHour
    running: list[Slot] = field(default_factory=list)
    due: dict[str, DueJobs] = field(default_factory=dict)

    @property
    def moments(self) -> dict[str, datetime]:
        return self.failures.shown_at

    def without_workers(self) -> "Glance":
        """For those who may not see them."""
        marks = [one for one in self.last_hour.marks if one.kind not in OF_WORKERS]
        last_hour = replace(self.last_hour, marks=marks)
        return replace(self, verdict=unnamed(self.verdict), last_hour=last_hour, running=[])


def glance(tables: list[Served] | None = None) -> Glance:
    """Of all queue tables, or of some. What cannot be asked is named, and the rest goes on."""
    chosen = list(all_served()) if tables is None else tables
    found = overview(chosen)
    there = [one for one in chosen if not _is_away(one, found)]
    failed = failures_of(chosen, found)
    asked = [one for one in there if one.using in failed.shown_at]
    pauses: list[Mark] = []
    for alias in dict.fromkeys(one.using for one in asked):
        tables = [one for one in asked if one.using == alias]
        pauses += _tried(found, database_name(alias), partial(_times, found, tables), [])
    running = _tried(found, WHAT_RUNS, partial(_running, found, asked), slots(found.workers))
    due: dict[str, DueJobs] = {}
    for one in asked:
        now = failed.shown_at[one.using]
        nothing: dict[str, DueJobs] = {}
        due |= _tried(found, one.title, partial(_due, one, now, found), nothing)
    return Glance(found, failed, verdict(found, failed), last_hour_of(found, pauses), running, due)


def failures_of(tables: Sequence[Served], found: Overview) -> Failures:
    """Those of the tables that could be looked at. What cannot be asked for them is named among the
    problems of the overview: a database, where it is none of its tables that is to blame."""
    failed = failures([one for one in tables if not _is_away(one, found)])
    for one in tables:
        if why := failed.problems.get(one.title):
            name = one.title if one.using in failed.shown_at else database_name(one.using)
            found.problems.setdefault(name, why)
    return failed


def _is_away(served: Served, found: Overview) -> bool:
    """Then it is not asked again: each try may take as long as the first."""
    return bool(found.problems.keys() & {served.title, database_name(served.using)})


def _tried(found: Overview, name: str, look: Callable[[], T], otherwise: T) -> T:
    try:
        return look()
    except (Error, ImproperlyConfigured, ImportError) as error:
        found.problems.setdefault(name, first_line(error))
        return otherwise


def _times(found: Overview, tables: Sequence[Served]) -> list[Mark]:
    """On one database, how long jobs waited and ran, noted with their queues; and the pauses."""
    alias = tables[0].using
    times, job_tables = times_of_hour(alias), {one.title: one.job_table for one in tables}
    for queue in found.queues:
        if queue.title in job_tables:
            key = job_tables[queue.title], queue.queue
            queue.waited, queue.ran = times.get(key, (None, None))
    return marks_of_pauses(alias, {one.job_table: one.title for one in tables})


def _running(found: Overview, tables: Sequence[Served]) -> list[Slot]:
    running = with_queues(slots(found.workers), [table_of(one.model, one.using) for one in tables])
    queues = {(one.table, one.database, one.queue): one for one in found.queues}
    for slot in running:
        if one := queues.get((slot.table, slot.worker.database, slot.queue or "")):
            one.busy += 1
    return running


def _due(served: Served, now: datetime, found: Overview) -> dict[str, DueJobs]:
    """Of a table that has delayed jobs."""
    queues: dict[str, QueueOverview] = {
        one.queue: one for one in found.queues if one.title == served.title
    }
    if not any(one.counts.get(Status.DELAYED) for one in queues.values()):
        return {}
    table = table_of(served.model, served.using)
    for name, seconds in next_by_queue(table, now).items():
        if name in queues:
            queues[name].next_seconds = seconds
    return {served.title: due_jobs(table, now)}
