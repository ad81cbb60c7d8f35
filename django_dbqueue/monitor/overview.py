"""Every queue of every queue table at a glance: what waits, how fast it goes, what is wrong."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import Error
from django.utils.translation import gettext as _

from ..conf.queue_order import is_pattern
from ..exceptions import first_line
from ..lifecycle.limiter import base_of, limiter_of
from ..lifecycle.limits import late_after, limits_of
from ..lifecycle.table import Table, table_of
from ..metrics.counting import OPEN, PARTS
from ..metrics.counts import QUEUES_MAX, abandoned_by_queue, due_by_queue, oldest_ready
from ..metrics.numbers import Count, Numbers, sum_of
from ..metrics.time_series import Hour, Quantiles, last_hour
from ..models import Queue
from ..models.queue import ALL
from ..states import Status
from ..texts.wording import rate_word
from ..worker.served import Served, all_served
from .many_queues import ManyQueues, OtherQueues
from .report import busy_queues, known_queues
from .worker_list import ListedWorker, list_workers

NOT_ENDED = frozenset({Status.READY, Status.DELAYED, Status.CLAIMED})
SHOWN = PARTS[OPEN]
DUE_MAX = 1_000  # jobs of a table
# Names among the problems: the same in all languages, as they are compared.
DATABASE, WHAT_RUNS = "database ", "what runs"


@dataclass
class QueueOverview:
    """One queue of one queue table. A count is exact, or as old as ``seconds_ago`` says; one that
    is ``at_least`` may stand for more, even a 0."""

    table: str
    queue: str
    database: str = "default"
    is_only: bool = True  # its table is on no other database
    counts: dict[Status, int] = field(default_factory=dict)
    at_least: set[Status] = field(default_factory=set)
    seconds_ago: dict[Status, float] = field(default_factory=dict)
    due: int = 0  # of the delayed jobs
    due_at_least: bool = False
    abandoned: int = 0  # of the claimed jobs, which nobody who lives takes back
    oldest_seconds: float | None = None
    oldest_has_key: bool = False  # it may have waited for its concurrency key
    hour: Hour = field(default_factory=Hour)
    paused: Queue | None = None
    workers: list[ListedWorker] = field(default_factory=list)
    max_length: int | None = None
    late_after: float = inf  # seconds that its oldest ready job may wait
    rate: str = ""  # by which its jobs start at the most
    # Where ``glance`` has looked for it.
    waited: Quantiles | None = None
    ran: Quantiles | None = None
    next_seconds: float | None = None  # until the first delayed job is due that is not yet
    busy: int = 0  # slots of workers

    @property
    def title(self) -> str:
        """Of its table, as ``Served.title``."""
        return self.table if self.is_only else f"{self.table}@{self.database}"

    def count(self, status: Status) -> Count:
        is_at_least = status in self.at_least
        return Count(self.counts.get(status, 0), is_at_least, self.seconds_ago.get(status))

    def note(self, status: Status, count: Count) -> None:
        self.counts[status] = count.number
        if count.is_at_least:
            self.at_least.add(status)
        if count.seconds_ago is not None:
            self.seconds_ago[status] = count.seconds_ago

    @property
    def held(self) -> Count:
        """Jobs that have not ended, which the limit is about."""
        return sum_of(map(self.count, NOT_ENDED))

    @property
    def slots(self) -> int:
        """How many jobs the workers that claim from it can run at once, of all their queues."""
        return sum(one.pool.slots for one in self.workers if one.state == "alive")

    @property
    def drain_seconds(self) -> float | None:
        """Until nothing waits if it goes on as in the last minutes: infinite where more comes in
        than goes out; None where that is not known."""
        waiting = self.counts.get(Status.READY, 0) + self.due
        rate_in = self.hour.rate_in
        if not waiting or rate_in is None or self.paused is not None or self.due_at_least:
            return None
        shrinks = self.hour.rate_out - rate_in
        return 60 * waiting / shrinks if shrinks > 0 else inf

    @property
    def is_idle(self) -> bool:
        """Nothing is in it, and nothing has happened in it for an hour."""
        hour = self.hour
        has_jobs = any(self.counts.values()) or self.at_least or self.paused is not None
        return not (has_jobs or hour.completed or hour.failed or hour.buried)

    @property
    def waits(self) -> bool:
        """Whether there is something for a worker to do now."""
        return bool(self.counts.get(Status.READY) or self.due or self.abandoned)


# By queue table, from the app that knows: one line for each of some jobs that run, how far it is.
UNDER_WAY: dict[str, Callable[[Table], list[str]]] = {}


@dataclass
class Overview:
    """``others``: of the tables that have more queues than are here; ``problems``: by database or
    table, why it could not be asked; ``under_way``: by table, how far some jobs are that say so."""

    queues: list[QueueOverview] = field(default_factory=list)
    others: list[OtherQueues] = field(default_factory=list)
    workers: list[ListedWorker] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    under_way: dict[str, list[str]] = field(default_factory=dict)

    @property
    def cut(self) -> list[str]:
        """The tables that have more queues than are here."""
        return [one.title for one in self.others]

    @property
    def all_under_way(self) -> list[str]:
        return [line for lines in self.under_way.values() for line in lines]


def database_name(alias: str) -> str:
    """As what a database stands among the problems."""
    return f"{DATABASE}{alias!r}"


def in_words(problem: str) -> str:
    """What a name among the problems stands for, to people."""
    if problem.startswith(DATABASE):
        return _("database %(name)s") % {"name": problem.removeprefix(DATABASE)}
    return _("what runs") if problem == WHAT_RUNS else problem


def overview(tables: list[Served] | None = None) -> Overview:
    """Of all queue tables, or of some; what cannot be asked is named, and the rest goes on.

    Every look is bounded; there is a query more for each queue, but none for each row.
    """
    found, asked = Overview(), dict[str, _OfDatabase]()
    chosen = list(all_served()) if tables is None else tables
    for alias in sorted({served.using for served in chosen}):
        try:
            names = {served.job_table for served in chosen if served.using == alias}
            asked[alias] = _OfDatabase(alias, names)
            found.workers += list_workers(alias)
        except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
            found.problems[database_name(alias)] = first_line(error)
    for served in chosen:
        if served.using in asked:
            _add_table(served, asked[served.using], found)
    return found


class _OfDatabase:
    """What is asked once for all tables of a database."""

    def __init__(self, alias: str, job_tables: set[str]) -> None:
        self.hours = defaultdict[str, dict[str, Hour]](dict)
        for (job_table, queue), hour in last_hour(alias).items():
            if isinstance(queue, str):  # SQLite keeps bytes where a hand wrote them
                self.hours[job_table][queue] = hour
        self.busy = busy_queues(alias, job_tables)
        self.pauses = defaultdict[str, dict[str, Queue]](dict)
        for row in Queue.objects.db_manager(alias).pauses(*job_tables):
            self.pauses[row.job_table][row.name] = row


def _add_table(served: Served, asked: _OfDatabase, found: Overview) -> None:
    workers = [one for one in found.workers if one.lives and one.database == served.using]
    own_pauses = asked.pauses[served.job_table]
    paused = asked.pauses[ALL] | own_pauses
    noted = asked.busy[served.job_table] | (own_pauses.keys() - {ALL})
    hours = asked.hours[served.job_table]
    named = _served_by_name(served, workers)
    try:
        table = table_of(served.model, served.using)
        queues, others = _counted_queues(
            table, noted, {*served.exact}, named, hours, paused.keys() - {ALL}
        )
        are_ended = any(one.reaps(served.label) for one in workers)
        are_claimed = not are_ended and any(one.count(Status.CLAIMED).number for one in queues)
        abandoned = abandoned_by_queue(table, DUE_MAX) if are_claimed else {}
        if told := UNDER_WAY.get(served.label):
            found.under_way.setdefault(served.label, []).extend(told(table))
    except Error as error:
        found.problems[served.title] = first_line(error)
        return
    limiter = limiter_of(served.model)
    for one in queues:
        one.is_only = served.is_only
        one.hour = hours.get(one.queue, one.hour)
        one.abandoned = abandoned.get(one.queue, 0)
        its_own = paused.get(one.queue, paused.get(base_of(served.model, one.queue)))
        one.paused = its_own or paused.get(ALL)
        one.rate = ", ".join(map(rate_word, limiter.rates(one.queue))) if limiter else ""
        one.max_length = limits_of(served.model, one.queue).max_length
        one.late_after = late_after(served.model, one.queue)
        one.workers = [worker for worker in workers if worker.takes(one.table, one.queue)]
    found.queues += queues
    if others is not None:
        others.title, others.is_paused = served.title, ALL in paused
        found.others.append(others)


def _served_by_name(served: Served, workers: Sequence[ListedWorker]) -> set[str]:
    """The queues of a table that some worker names."""
    parts = (name.partition(":") for one in workers for name in one.serves)
    named = {queue for label, _, queue in parts if label == served.label and queue}
    return {queue for queue in named if not is_pattern(queue)}


def _counted_queues(
    table: Table,
    noted: set[str],
    asked_for: set[str],
    served: set[str],
    hours: Mapping[str, Hour],
    paused: Set[str],
) -> tuple[list[QueueOverview], OtherQueues | None]:
    """The 100 that are shown, and what the others come to, where there are more."""
    numbers, due = Numbers(table), due_by_queue(table, DUE_MAX)
    names = known_queues(table, numbers.names(), noted | served)
    others, shown = None, names
    if len(names) > QUEUES_MAX:
        every = {*names, *hours, *asked_for, *served}
        many = ManyQueues(table, numbers, every, due, hours, paused)
        shown = many.choose(asked_for, served)
        others = many.others({*shown})
    queues = [QueueOverview(table.label, name, table.connection.alias) for name in shown]
    for one in queues:
        for status in SHOWN:
            one.note(status, numbers.of(status, one.queue))
        one.due, one.due_at_least = due.get(one.queue, 0), sum(due.values()) > DUE_MAX
        if one.counts[Status.READY]:
            one.oldest_seconds, one.oldest_has_key = oldest_ready(table, one.queue)
    return queues, others


def summed(queues: Sequence[QueueOverview]) -> QueueOverview:
    """One queue on several databases: what can be added up, and the longest wait."""
    whole = QueueOverview(queues[0].table, queues[0].queue, queues[0].database)
    for status in SHOWN:
        whole.note(status, sum_of(one.count(status) for one in queues))
    for one in queues:
        whole.due += one.due
        whole.hour.completed += one.hour.completed
        whole.hour.failed += one.hour.failed
    waits = [one.oldest_seconds for one in queues if one.oldest_seconds is not None]
    whole.oldest_seconds = max(waits, default=None)
    return whole
