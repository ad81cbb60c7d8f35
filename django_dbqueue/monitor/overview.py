"""Every queue of every queue table at a glance: what waits, how fast it goes, what is wrong."""

from dataclasses import dataclass, field

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import Error

from ..exceptions import first_line
from ..fields import DbNow
from ..lifecycle.table import Table, table_of
from ..metrics.counts import MOST_QUEUES, count_ready, due_by_queue, oldest_ready
from ..metrics.time_series import Hour, last_hour
from ..models import Queue
from ..states import Status
from ..worker.served import Served, all_served
from .report import MOST_COUNTED, count_together, known_queues
from .worker_list import ListedWorker, list_workers


@dataclass
class Lane:
    """One queue of one queue table. A count that is ``at_least`` may stand for more, even a 0."""

    table: str
    queue: str
    counts: dict[Status, int] = field(default_factory=dict)
    at_least: set[Status] = field(default_factory=set)
    due: int = 0  # of the delayed jobs
    oldest_seconds: float | None = None
    hour: Hour = field(default_factory=Hour)
    paused: Queue | None = None
    workers: list[ListedWorker] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether there is something for a worker to do now."""
        return bool(self.counts.get(Status.READY) or self.due)


@dataclass
class Overview:
    """``problems``: by database or table, why it could not be asked; ``cut``: the tables that have
    more queues than are here."""

    lanes: list[Lane] = field(default_factory=list)
    members: list[ListedWorker] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)


def overview(tables: list[Served] | None = None) -> Overview:
    """Of all queue tables, or of some; what cannot be asked is named, and the rest goes on.

    Every look is bounded; there is a query more for each queue, but none for each row.
    """
    found, hours = Overview(), dict[str, dict[tuple[str, str], Hour]]()
    chosen = list(all_served()) if tables is None else tables
    for alias in sorted({served.using for served in chosen}):
        try:
            hours[alias] = last_hour(alias)
            found.members += list_workers(alias)
        except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
            found.problems[f"database {alias!r}"] = first_line(error)
    for served in chosen:
        if served.using in hours:
            _look(served, hours[served.using], found)
    return found


def _look(served: Served, hours: dict[tuple[str, str], Hour], found: Overview) -> None:
    serving = [one for one in found.members if one.lives and one.database == served.using]
    try:
        paused = _paused(served)
        lanes = _lanes(table_of(served.model, served.using), _named(serving, served))
    except Error as error:
        found.problems[served.label] = first_line(error)
        return
    for lane in lanes[:MOST_QUEUES]:
        lane.hour = hours.get((served.job_table, lane.queue), lane.hour)
        lane.paused = paused.get(lane.queue)
        lane.workers = [one for one in serving if one.takes(lane.table, lane.queue)]
    found.lanes += lanes[:MOST_QUEUES]
    found.cut += [served.label] if len(lanes) > MOST_QUEUES else []


def _lanes(table: Table, named: set[str]) -> list[Lane]:
    """One more than 100, where there are more."""
    counts, due = count_together(table), due_by_queue(table, MOST_COUNTED)
    more = {s for s, counted in counts.items() if sum(counted.values()) > MOST_COUNTED}
    names = sorted({*known_queues(table, counts), *named})
    lanes = [Lane(table.label, queue) for queue in names[: MOST_QUEUES + 1]]
    for lane in lanes:
        lane.counts = {status: counted.get(lane.queue, 0) for status, counted in counts.items()}
        lane.at_least, lane.due = set(more), due.get(lane.queue, 0)
        _add_ready(table, lane)
    return lanes


def _add_ready(table: Table, lane: Lane) -> None:
    """Of this queue alone: the index for claims begins with the queue."""
    counted = count_ready(table, lane.queue, MOST_COUNTED)
    lane.counts[Status.READY] = min(counted, MOST_COUNTED)
    lane.at_least |= {Status.READY} if counted > MOST_COUNTED else set()
    if counted:
        lane.oldest_seconds = oldest_ready(table, lane.queue)


def _named(members: list[ListedWorker], served: Served) -> set[str]:
    """The queues of a table that workers serve by name."""
    parts = [name.partition(":") for member in members for name in member.serves]
    return {queue for label, _, queue in parts if label == served.label and queue}


def _paused(served: Served) -> dict[str, Queue]:
    rows = Queue.objects.using(served.using).filter(job_table=served.job_table)
    return {row.name: row for row in rows.filter(paused_until__gt=DbNow())}
