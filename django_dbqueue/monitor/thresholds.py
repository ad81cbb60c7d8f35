"""Which queues are over a limit: what a monitoring system asks for, and alerts about."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from django.db.utils import Error
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..exceptions import first_line
from ..lifecycle.backlog import count_ready
from ..lifecycle.table import Table, table_of
from ..metrics.counts import Due, due_and_since
from ..metrics.numbers import Count
from ..states import Status
from ..texts.wording import duration, number
from ..worker.served import Served
from .overview import QueueOverview, overview

DUE_MAX = 20_000  # jobs of a table that are looked at, whichever their queues are


@dataclass(frozen=True)
class Thresholds:
    """A queue is over them with so many waiting jobs, or where one waits for more seconds; None
    for what is said of each queue, or ``LATE_AFTER``."""

    waiting: int
    age: float | None


@dataclass
class WatchedQueue:
    """``waiting``: ready jobs, and delayed ones whose time has come, counted up to the limit;
    ``at_least`` and ``counted_seconds_ago`` say of ``delayed`` and ``claimed`` what is not exact,
    as in ``QueueOverview``; ``why``: what is wrong, in words."""

    table: str
    queue: str
    database: str
    waiting: int
    oldest_seconds: float | None
    late_after_seconds: float
    delayed: int
    claimed: int
    paused: bool
    workers: int
    at_least: list[str] = field(default_factory=list)
    counted_seconds_ago: dict[str, float] = field(default_factory=dict)
    why: list[str] = field(default_factory=list)

    def count(self, name: str) -> Count:
        """That of ``delayed`` or ``claimed``."""
        is_at_least = name in self.at_least
        return Count(getattr(self, name), is_at_least, self.counted_seconds_ago.get(name))


@dataclass
class Watched:
    """``problems``: by database or table, why it could not be asked."""

    queues: list[WatchedQueue] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def over(self) -> list[WatchedQueue]:
        return [one for one in self.queues if one.why]


def watch(tables: Sequence[Served], limits: Thresholds) -> Watched:
    """The queues that are in use, of these tables or queues, each once."""
    found, known = Watched(), set[tuple[str, str, str]]()
    for served in tables:
        seen = overview([served])
        if seen.problems:
            found.problems |= seen.problems
            continue
        wanted = [one for one in seen.queues if served.means(one.queue)]
        queues = [one for one in wanted if (*served.place, one.queue) not in known]
        known |= {(*served.place, one.queue) for one in queues}
        try:
            found.queues += _watched(served, queues, limits)
        except Error as error:
            found.problems[served.title] = first_line(error)
    return found


def _watched(
    served: Served, queues: list[QueueOverview], limits: Thresholds
) -> Iterator[WatchedQueue]:
    table = table_of(served.model, served.using)
    # Where these are not all, some queue of the table is over the limit, or thousands are due.
    due = due_and_since(table, max(DUE_MAX, limits.waiting * len(queues)))
    for one in queues:
        its_due = due.get(one.queue, Due())
        ages = [s for s in (one.oldest_seconds, its_due.oldest_seconds) if s is not None]
        told = {str(s.label): one.count(s) for s in (Status.DELAYED, Status.CLAIMED)}
        watched = WatchedQueue(
            table=served.label,
            queue=one.queue,
            database=served.using,
            waiting=_ready(table, one, limits.waiting) + its_due.number,
            oldest_seconds=max(ages, default=None),
            late_after_seconds=one.late_after if limits.age is None else limits.age,
            delayed=told["delayed"].number,
            claimed=told["claimed"].number,
            paused=one.paused is not None,
            workers=sum(worker.state == "alive" for worker in one.workers),
            at_least=[name for name, count in told.items() if count.is_at_least],
            counted_seconds_ago={
                name: round(count.seconds_ago, 1)
                for name, count in told.items()
                if count.seconds_ago is not None
            },
        )
        watched.why += _problems(watched, limits)
        yield watched


def _ready(table: Table, one: QueueOverview, limit: int) -> int:
    """Counted now, where the overview stops short of the limit or was counted before."""
    known = one.count(Status.READY)
    is_enough = known.is_exact or (known.is_at_least and known.number >= limit)
    return known.number if is_enough else min(count_ready(table, one.queue, limit), limit)


def _problems(one: WatchedQueue, limits: Thresholds) -> Iterator[str]:
    if one.waiting >= limits.waiting:
        text = _("a job waits")
        if limits.waiting > 1:
            text = ngettext(
                "%(number)s or more jobs wait", "%(number)s or more jobs wait", limits.waiting
            )
        yield text % {"number": number(limits.waiting)}
    if one.oldest_seconds is not None and one.oldest_seconds > one.late_after_seconds:
        yield _("the oldest waits for %(time)s") % {"time": duration(one.oldest_seconds)}
