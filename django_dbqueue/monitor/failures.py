"""What failed, kind by kind: how often lately, and how many jobs wait for a person."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.models import F, Max, Q, Sum
from django.db.utils import Error

from ..exceptions import first_line
from ..fields import InstantField
from ..lifecycle.errors import entries
from ..lifecycle.failures import Failure, failure_of
from ..lifecycle.table import Table, table_of
from ..metrics.counts import UNKNOWN, Failed, count_kind, failed_by_kind
from ..metrics.failures import UNTOLD, start_of
from ..metrics.recorder import this_minute
from ..models import FailureCount, FailureKind
from ..models.failure import KINDS_MAX, MINUTES, OTHER
from ..operate.choice import Choice
from ..operate.moments import now_of
from ..states import Status
from ..worker.served import Served, all_served

HOUR, DAY = 60, 24 * 60  # minutes
POINTS = 48  # of a sparkline, over a day
POINT = DAY // POINTS
EXACT_MAX = 100_000  # jobs of one kind that are counted for one who is about to retry them


@dataclass
class FailureGroup:
    """Failures of one kind in one queue table. ``hour`` and ``day``: failed attempts; ``per_point``
    are those of the day, by half hours; both moments are None where nothing was counted."""

    served: Served
    failure: Failure
    hour: int = 0
    day: int = 0
    per_point: list[int] = field(default_factory=lambda: [0] * POINTS)
    queues: list[str] = field(default_factory=list)
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    here: Failed = field(default_factory=Failed)

    @property
    def fingerprint(self) -> str:
        return self.failure.fingerprint

    @property
    def is_other(self) -> bool:
        return self.fingerprint == OTHER


@dataclass
class Failures:
    """The groups, those first of which most wait for somebody; ``shown_at`` is the moment up to
    which buried jobs are counted, by database; ``more_kinds``: the tables that hold jobs of kinds
    which are left out; ``problems``: what could not be asked, and why."""

    groups: list[FailureGroup] = field(default_factory=list)
    shown_at: dict[str, datetime] = field(default_factory=dict)
    more_kinds: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


def failures(
    tables: Sequence[Served] | None = None, queues: Sequence[str] = (), minutes: int | None = None
) -> Failures:
    """What failed in these tables within so many minutes (at most a day), or without that within a
    day, and what is still in them; of all queues, or of some. Whatever a table holds, each look is
    bounded."""
    found, looks, away = Failures(), dict[str, Look](), dict[str, str]()
    for served in all_served() if tables is None else tables:
        wanted = (served.queue,) if served.queue else tuple(queues)
        if served.using in away:  # each try may take as long as the first
            found.problems[served.title] = away[served.using]
            continue
        try:
            if served.using not in looks:
                looks[served.using] = look(served)
            groups, has_more = groups_of(served, looks[served.using], wanted, minutes)
            found.groups += groups
            found.more_kinds += [served.title] if has_more else []
        except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
            found.problems[served.title] = first_line(error)
            if served.using not in looks:
                away[served.using] = first_line(error)
    found.shown_at = {using: one.until for using, one in looks.items()}
    found.groups.sort(key=lambda one: (-one.here.buried, -one.day, one.fingerprint))
    return found


@dataclass(frozen=True)
class Look:
    """At a database: until which moment, in which minute, and what was counted by then of each
    table: fingerprint, queue, half hour, attempts, those of the last hour, and the minute in which
    the last five minutes of these begin."""

    until: datetime
    minute: int
    counts: dict[str, list[tuple[str, str, int, int, int, int]]]


def look(served: Served) -> Look:
    """At the database of a table."""
    until, minute = clock(served), this_minute(served.using)
    counted = FailureCount.objects.using(served.using).filter(minute__gte=begin_of(DAY, minute))
    # The last half hour ends with the present five minutes; the first one has a rest before it.
    # What is later was counted since the minute was read, or before the clock was set back.
    before = start_of(minute) + MINUTES - DAY - POINT
    # A comparison of the rest of the division, which every database knows.
    half_hour = F("minute") - (F("minute") - before) % POINT
    by = counted.values("job_table", "fingerprint", "queue", half_hour=half_hour).order_by()
    of_hour = Sum("failed", filter=Q(minute__gte=begin_of(HOUR, minute)), default=0)
    summed: Any = by.annotate(sum=Sum("failed"), of_hour=of_hour, last=Max("minute"))
    columns = "job_table", "fingerprint", "queue", "half_hour", "sum", "of_hour", "last"
    counts = defaultdict(list)
    for job_table, fingerprint, queue, start, *numbers in summed.values_list(*columns):
        point = min(max(0, (int(start) - before) // POINT - 1), POINTS - 1)
        failed, lately, last = map(int, numbers)
        counts[job_table].append((fingerprint, queue, point, failed, lately, last))
    return Look(until, minute, counts)


def begin_of(minutes: int, minute: int) -> int:
    """Where the first of the five minutes begin that reach into the last so many: up to five more
    are counted, and none less."""
    return start_of(minute - minutes)


def clock(served: Served) -> datetime:
    """The moment, by the database's own clock."""
    return now_of(served.using)


def groups_of(
    served: Served, seen: Look, queues: Sequence[str], minutes: int | None = None
) -> tuple[list[FailureGroup], bool]:
    """Those of one table, and whether it has jobs of kinds that are left out; what nobody can tell
    apart is one group."""
    table, queues = table_of(served.model, served.using), _in_full(served, seen, queues)
    counted = _counted(served, seen, queues, DAY if minutes is None else minutes)
    lately = sorted(counted.keys() - {OTHER}, key=lambda name: (-counted[name].day, name))
    here = failed_by_kind(table, stored(table, seen.until), queues, lately)
    is_all = minutes is None
    wanted = {*counted, *(here.shown if is_all else [])}
    kinds = _kinds(table, wanted) if wanted else {}
    groups: dict[str, FailureGroup] = {}
    for fingerprint in sorted(wanted):
        kind = kinds.get(fingerprint)
        failure = UNTOLD if kind is None else kind.failure
        # How many jobs of other kinds there are is not known: some have groups of their own.
        fresh = FailureGroup(served, failure, here=UNKNOWN)
        group = groups.setdefault(failure.fingerprint, fresh)
        counted.get(fingerprint, Counted()).add_to(group)
        if kind is not None:
            group.here = here.of(fingerprint)
            group.first_seen, group.last_seen = kind.first_seen, kind.last_seen
    return list(groups.values()), is_all and here.has_more


def _in_full(served: Served, seen: Look, queues: Sequence[str]) -> Sequence[str]:
    """The queues, and those in which something failed that match a pattern or are a lane."""
    if not queues:
        return queues
    asked = replace(served, queue=None, among=tuple(queues))
    known = {queue for _, queue, *_ in seen.counts.get(served.job_table, ())}
    return sorted({*queues, *filter(asked.means, known)})


def one_group(served: Served, fingerprint: str, until: datetime) -> FailureGroup | None:
    """One of which somebody wants to do something to the jobs; they are counted up to 100,000."""
    table = table_of(served.model, served.using)
    kind = _kinds(table, {fingerprint}).get(fingerprint)
    if kind is None:
        return None
    here = count_kind(table, fingerprint, stored(table, until), EXACT_MAX)
    return FailureGroup(served, kind.failure, here=here)


def choice_of(fingerprint: str, until: datetime, queues: Sequence[str] = ()) -> Choice:
    """The jobs that were shown, and counted, as buried with a failure."""
    return Choice(
        states=frozenset({Status.BURIED}),
        queues=tuple(queues),
        failure=fingerprint,
        until=until,
    )


def stored(table: Table, moment: datetime) -> Any:
    """A moment as the column has it."""
    return InstantField().get_db_prep_value(moment, table.connection)


@dataclass
class Counted:
    """What was counted of one kind."""

    hour: int = 0
    day: int = 0
    per_point: list[int] = field(default_factory=lambda: [0] * POINTS)
    queues: set[str] = field(default_factory=set)

    def add_to(self, group: FailureGroup) -> None:
        group.hour += self.hour
        group.day += self.day
        group.per_point = [a + b for a, b in zip(group.per_point, self.per_point, strict=True)]
        group.queues = sorted({*group.queues, *self.queues})


def _counted(
    served: Served, seen: Look, queues: Collection[str], minutes: int
) -> dict[str, Counted]:
    """By fingerprint, of those that failed within so many minutes."""
    found: dict[str, Counted] = defaultdict(Counted)
    lately: set[str] = set()
    begin = begin_of(minutes, seen.minute)
    for fingerprint, queue, point, failed, of_hour, last in seen.counts.get(served.job_table, ()):
        if queues and queue not in queues:
            continue
        one = found[fingerprint]
        one.day += failed
        one.hour += of_hour
        one.per_point[point] += failed
        one.queues.add(queue)
        if last >= begin:
            lately.add(fingerprint)
    return {name: one for name, one in found.items() if name in lately}


@dataclass(frozen=True)
class _Kind:
    failure: Failure
    first_seen: datetime | None = None
    last_seen: datetime | None = None


def _kinds(table: Table, fingerprints: set[str]) -> dict[str, _Kind]:
    """What they stand for: as was noted when they were counted; else by some job of theirs."""
    noted = FailureKind.objects.using(table.connection.alias).filter(job_table=table.job_table)
    noted = noted.order_by("-last_seen")[:KINDS_MAX]
    found = {
        one.fingerprint: _Kind(
            Failure(one.fingerprint, one.exception, one.place, one.words),
            _moment(one.first_seen),
            _moment(one.last_seen),
        )
        for one in noted
        if one.fingerprint in fingerprints
    }
    for fingerprint in fingerprints - found.keys() - {OTHER}:
        if (failure := _of_some_job(table, fingerprint)) is not None:
            found[fingerprint] = _Kind(failure)
    return found


def _of_some_job(table: Table, fingerprint: str) -> Failure | None:
    jobs = table.model._base_manager.using(table.connection.alias).filter(failure=fingerprint)
    for job in jobs.order_by("failure", "failed_at").only("pk", "errors")[:1]:
        # A hand, or an erasure, may have left none.
        [*_, newest] = [{}, *entries(job.errors)]
        told = failure_of(newest)
        return Failure(fingerprint, told.exception, told.place, told.words)
    return None


def _moment(minute: Any) -> datetime | None:
    """None for what only a hand can have written."""
    try:
        return datetime.fromtimestamp(minute * 60, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
