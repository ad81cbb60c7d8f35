"""The last hour, minute by minute: what came in, what was done, what failed, and what people and
workers did meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..fields import DbNow
from ..metrics.time_series import Hour
from ..models import Queue
from ..models.queue import ALL
from .overview import Overview
from .worker_list import ListedWorker, age_of

MINUTES = 60
QUEUES_MAX = 4  # that have a band of their own
MARKS_MAX = 100  # of pauses, of a database
LANES = ("in", "done", "failed")
OF_WORKERS = {"start", "stop", "code"}  # kinds of marks


@dataclass
class Band:
    """One queue, or all the others together: about what came in, and what was done and failed, the
    oldest minute first."""

    name: str
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, hour: Hour) -> None:
        for lane, more in (
            ("in", hour.in_per_minute),
            ("done", hour.per_minute),
            ("failed", hour.failed_per_minute),
        ):
            before = self.values.get(lane) or [0.0] * MINUTES
            self.values[lane] = [a + b for a, b in zip(before, more, strict=True)]


@dataclass(frozen=True)
class Mark:
    """Something that was done, and how many seconds ago. ``kind``: start, stop, code, pause or
    resume."""

    kind: str
    seconds: float
    text: str

    @property
    def minute(self) -> int:
        """Its place in the hour; the last one is the present."""
        return max(0, MINUTES - 1 - int(max(0.0, self.seconds) // 60))


@dataclass
class LastHour:
    """``bands``: the busiest queues, then all others; ``marks``: the latest first."""

    bands: list[Band] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def total(self, lane: str) -> float:
        return sum(sum(band.values[lane]) for band in self.bands)


def last_hour_of(found: Overview, pauses: Sequence[Mark]) -> LastHour:
    marks = [*_marks_of_workers(found.workers), *pauses]
    # A hand may have written a moment that is to come, or PostgreSQL's infinity.
    lately = [mark for mark in marks if abs(mark.seconds) < MINUTES * 60]
    return LastHour(bands(found), sorted(lately, key=lambda mark: mark.seconds))


def bands(found: Overview) -> list[Band]:
    """Of the queues in which something happened, the busiest first."""
    hours = [(one.title, one.queue, one.hour) for one in found.queues]
    hours += [(one.title, *its) for one in found.others for its in one.hours.items()]
    busy = [one for one in hours if one[2].completed + one[2].failed or one[2].backlogs]
    busy.sort(key=lambda one: -(one[2].completed + one[2].failed))
    is_many = len(busy) > QUEUES_MAX + 1  # one more has a place instead of "others"
    named, others = (busy[:QUEUES_MAX], busy[QUEUES_MAX:]) if is_many else (busy, [])
    drawn = []
    for title, queue, hour in named:
        band = Band(f"{title}, {queue}")  # names alone
        band.add(hour)
        drawn.append(band)
    if others:
        name = ngettext("%(number)s other", "%(number)s others", len(others))
        rest = Band(name % {"number": len(others)})
        for _title, _queue, hour in others:
            rest.add(hour)
        drawn.append(rest)
    return drawn


def _marks_of_workers(workers: Sequence[ListedWorker]) -> Iterator[Mark]:
    """Starts and stops; that the code has changed, where a worker was there before that had an
    older ``CODE_VERSION``."""
    newest: int | None = None
    seen: dict[str, ListedWorker] = {}
    for worker in workers:  # one that works on several databases has a row on each
        seen.setdefault(worker.uuid, worker)
    for worker in sorted(seen.values(), key=lambda one: -one.started_seconds):
        is_new = newest is not None and worker.code_version > newest
        newest = max(worker.code_version, newest or 0)
        values = {"name": worker.name, "version": worker.code_version, "why": worker.reason}
        text = _("worker %(name)s started")
        if is_new:
            text = _("worker %(name)s started, with code version %(version)s")
        yield Mark("code" if is_new else "start", worker.started_seconds, text % values)
        if worker.stopped_seconds is not None:
            text = _("worker %(name)s stopped")
            if worker.reason:
                text = _("worker %(name)s stopped: %(why)s")
            yield Mark("stop", worker.stopped_seconds, text % values)


def marks_of_pauses(alias: str, titles: Mapping[str, str]) -> list[Mark]:
    """When pauses began and ended: of each queue, the last one. ``titles``: by queue table, as it
    is stored, what it is called."""
    ages = {name: age_of(name, alias) for name in ("paused_at", "resumed_at", "paused_until")}
    rows = Queue.objects.using(alias).filter(paused_at__isnull=False)
    since = DbNow(plus=-MINUTES * 60)
    lately = Q(paused_at__gt=since) | Q(resumed_at__gt=since)
    lately |= Q(paused_until__gt=since, paused_until__lte=DbNow())
    found: Any = rows.filter(lately).annotate(**{f"{n}_age": age for n, age in ages.items()})
    latest = found.order_by("-paused_at")[:MARKS_MAX]
    return [mark for row in latest for mark in _marks_of_pause(row, titles)]


def _marks_of_pause(row: Any, titles: Mapping[str, str]) -> Iterator[Mark]:
    table = titles.get(row.job_table, row.job_table)
    name = _("everything") if row.job_table == ALL else table
    if row.name != ALL:
        name = _("%(table)s, queue %(queue)s") % {"table": table, "queue": row.name}
    values = {"name": name, "reason": row.pause_reason}
    # An age is None, too, where somebody wrote by hand what is no instant: nobody knows when.
    if row.paused_at_age is not None:
        text = _("%(name)s paused: %(reason)s") if row.pause_reason else _("%(name)s paused")
        yield Mark("pause", float(row.paused_at_age), text % values)
    has_run_out = row.paused_until_age is not None and row.paused_until_age >= 0
    ended = row.paused_until_age if has_run_out else row.resumed_at_age
    if ended is not None:
        yield Mark("resume", float(ended), _("%(name)s goes on") % values)
