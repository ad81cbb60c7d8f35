"""Every queue of every queue table at a glance: what waits, how fast it goes, what is wrong."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import Error

from .fields import DbNow
from .history import Hour, last_hour
from .lifecycle.census import CAP, count_by_queue, count_ready, oldest_ready
from .lifecycle.table import Table, table_of
from .models import Queue
from .report import known_queues
from .roster import Member, roster
from .states import Status
from .worker.options import Served, all_served

COUNTED = (Status.CLAIMED, Status.DELAYED, Status.BURIED)


@dataclass
class Lane:
    """One queue of one queue table. A count that is ``at_least`` stands for more."""

    table: str
    queue: str
    counts: dict[Status, int] = field(default_factory=dict)
    at_least: set[Status] = field(default_factory=set)
    oldest_seconds: float | None = None
    hour: Hour = field(default_factory=Hour)
    paused: Queue | None = None
    workers: list[Member] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether there is something for a worker to do, now or soon."""
        return any(self.counts.get(status) for status in (Status.READY, Status.DELAYED))


@dataclass
class Overview:
    """``problems``: by database or table, why it could not be asked."""

    lanes: list[Lane] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


def overview(tables: list[Served] | None = None) -> Overview:
    """Of all queue tables, or of some; what cannot be asked is named, and the rest goes on.

    Every look is bounded; there is a query more for each queue, but none for each row.
    """
    found, hours = Overview(), dict[str, dict[tuple[str, str], Hour]]()
    chosen = list(all_served()) if tables is None else tables
    for alias in sorted({served.using for served in chosen}):
        try:
            hours[alias] = last_hour(alias)
            found.members += roster(alias)
        except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
            found.problems[f"database {alias}"] = _words(error)
    for served in chosen:
        if served.using in hours:
            _look(served, hours[served.using], found)
    return found


def _look(served: Served, hours: dict[tuple[str, str], Hour], found: Overview) -> None:
    try:
        lanes = list(_lanes(table_of(served.model, served.using)))
    except Error as error:
        found.problems[served.label] = _words(error)
        return
    paused = _paused(served)
    for lane in lanes:
        lane.hour = hours.get((lane.table, lane.queue), lane.hour)
        lane.paused = paused.get(lane.queue)
        lane.workers = [one for one in found.members if one.lives and _serves(one, served, lane)]
    found.lanes += lanes


def _lanes(table: Table) -> Iterator[Lane]:
    counts = {status: count_by_queue(table, status) for status in COUNTED}
    ready = count_by_queue(table, Status.READY)
    is_ready_whole = sum(ready.values()) <= CAP
    more = {status for status in COUNTED if sum(counts[status].values()) > CAP}
    for queue in known_queues(table):
        lane = Lane(table.label, queue)
        lane.counts = {status: counts[status].get(queue, 0) for status in COUNTED}
        lane.at_least = {status for status in more if lane.counts[status]}
        waiting = ready.get(queue, 0) if is_ready_whole else count_ready(table, queue)
        lane.counts[Status.READY] = min(waiting, CAP)
        if waiting > CAP:
            lane.at_least.add(Status.READY)
        lane.oldest_seconds = oldest_ready(table, queue) if waiting else None
        yield lane


def _paused(served: Served) -> dict[str, Queue]:
    rows = Queue.objects.using(served.using).filter(job_table=served.label)
    return {row.name: row for row in rows.filter(paused_until__gt=DbNow())}


def _serves(member: Member, served: Served, lane: Lane) -> bool:
    here = member.database == served.using
    return here and bool({lane.table, f"{lane.table}:{lane.queue}"} & set(member.serves))


def _words(error: Exception) -> str:
    first = str(error).strip().splitlines()
    return first[0] if first else type(error).__name__
