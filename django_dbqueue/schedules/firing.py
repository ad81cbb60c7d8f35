"""One look at the schedules of a database: what is due is enqueued, each tick once.

Any number of processes may look. A schedule belongs to the one that moves its ``next_tick`` on,
which nobody else can do from the same tick; its jobs and the rows of its ticks are written in that
transaction.
"""

import logging
import random
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.models import F
from django.db.utils import Error, IntegrityError
from django.utils.translation import gettext as _

from ..dialects import dialect_of
from ..fields import DbNow
from ..guard import capture, clean
from .models import ERROR_CHARS_MAX, Overlap, Schedule, Tick, as_utc, db_now
from .planning import Plan, plan, whole
from .problems import problems_in_words, problems_of
from .targets import TARGETS, State

logger = logging.getLogger("django_dbqueue")

BATCH = 100  # schedules in one transaction
RETRY_SECONDS = 60  # until a schedule whose target is broken is tried again
# The newest ticks of a schedule whose rows stay; up to so many more wait to be deleted.
KEPT_TICKS = 50


class ScheduleGone(Exception):
    """Somebody has deleted it meanwhile."""


@dataclass(frozen=True)
class Turn:
    """What one schedule is to do now."""

    schedule: Schedule
    plan: Plan


def due_in(using: str) -> float | None:
    """Seconds until a schedule is to be looked at, 0 or less where one is due; None without any."""
    rows: Any = Schedule.objects.using(using).filter(next_at__isnull=False).order_by("next_at")
    # As an instance: by its values it would be sorted as it is read, which no index serves.
    first = rows.annotate(now=DbNow()).only("next_at").first()
    return None if first is None else (as_utc(first.next_at) - as_utc(first.now)).total_seconds()


def run_due(using: str = DEFAULT_DB_ALIAS, *, is_careful: bool = False) -> int:
    """Enqueue what is due on a database, until nothing is; how many schedules were looked at.

    Workers do this by themselves. ``is_careful``: each in a transaction of its own, in any order,
    since one of them may never return. ``Error`` where the database is away, or somebody holds a
    lock: then nothing was lost, and the next look goes on.
    """
    count = 0
    while looked := look(using, is_careful=is_careful):
        count += looked
    return count


def look(using: str, *, is_careful: bool = False) -> int:
    """Of what is due the first ``BATCH`` schedules; how many there were."""
    wait = due_in(using)
    if wait is None or wait > 0:
        return 0
    now = db_now(using)
    rows = Schedule.objects.using(using).filter(next_at__lte=now, next_tick__isnull=False)
    # In the order of their keys: two that write the same rows wait for each other in one order.
    due = sorted(rows.order_by("next_at")[:BATCH], key=lambda one: one.pk)
    turns = [turn for one in due if (turn := _turn(one, now, using)) is not None]
    if is_careful:
        random.shuffle(turns)
    else:
        together = [one for one in turns if TARGETS[one.schedule.kind].rolls_back]
        if _fire_together(together, using):
            turns = [one for one in turns if not TARGETS[one.schedule.kind].rolls_back]
    for turn in turns:
        _fire_alone(turn, now, using)
    return len(due)


def _turn(schedule: Schedule, now: datetime, using: str) -> Turn | None:
    """None, and the schedule says why, where it cannot be planned."""
    assert schedule.next_tick is not None, "it is due"
    with capture() as outcome:
        schedule.target_kind()
        missed, within = schedule.missed, schedule.catch_up_within
        first = as_utc(schedule.next_tick)
        return Turn(schedule, plan(schedule.ticks(), first, now, missed, within))
    assert outcome.error is not None, "else it would have returned"
    _record(schedule, outcome.error, now, using)
    return None


def _fire_together(turns: Sequence[Turn], using: str) -> bool:
    """In one transaction, since commits are what takes the time; False, and nothing was done, where
    one of them fails."""
    if not turns:
        return True
    with capture() as outcome, transaction.atomic(using=using):
        known = _known(turns, using)
        rows = [row for turn in turns for row in _fire(turn, known, using)]
        Tick.objects.using(using).bulk_create(rows)
    _raise_if_away(outcome.error, using)
    return outcome.error is None


def _fire_alone(turn: Turn, now: datetime, using: str) -> None:
    """What its target raises is recorded."""
    with capture() as outcome, transaction.atomic(using=using):
        rows = _fire(turn, _known([turn], using), using)
        Tick.objects.using(using).bulk_create(rows)
    _raise_if_away(outcome.error, using)
    if outcome.error is not None:
        _record(turn.schedule, outcome.error, now, using)


def _raise_if_away(error: Exception | None, using: str) -> None:
    """What is the database's fault is none of the schedule's."""
    if isinstance(error, Error) and dialect_of(connections[using]).error_kind(error):
        raise error


def _known(turns: Sequence[Turn], using: str) -> set[tuple[int, datetime]]:
    """The ticks among the due ones that have a row: the clock of the database was set back."""
    due = {tick for turn in turns for tick in turn.plan.ticks}
    due |= {turn.plan.dropped for turn in turns if turn.plan.dropped is not None}
    rows = Tick.objects.using(using).filter(schedule__in=[turn.schedule.pk for turn in turns])
    found = rows.filter(tick__gte=min(due), tick__lte=max(due)) if due else rows.none()
    return {(key, as_utc(tick)) for key, tick in found.values_list("schedule_id", "tick")}


def _fire(turn: Turn, known: set[tuple[int, datetime]], using: str) -> list[Tick]:
    """Move it on, and enqueue its jobs; the rows to write, none where somebody else was faster."""
    # A copy: what is undone with the transaction is not remembered either.
    schedule, its = copy(turn.schedule), turn.plan
    ticks = [tick for tick in its.ticks if (schedule.pk, tick) not in known]
    dropped = None if (schedule.pk, its.dropped) in known else its.dropped
    rows = Schedule.objects.using(using).filter(pk=schedule.pk, next_tick=schedule.next_tick)
    steps = {"next_tick": its.next, "next_at": its.next, "error": ""}
    number = len(ticks) + int(dropped is not None)
    if not rows.update(**steps, count=F("count") + number):
        return []
    made = [] if dropped is None else [_missed(schedule, dropped, ticks)]
    made += [_enqueue(schedule, tick, using) for tick in ticks]
    if schedule.overlap != Overlap.ALLOW:
        note_last(schedule, using)
    if schedule.count % KEPT_TICKS + len(made) >= KEPT_TICKS:
        _prune(schedule, using)
    return made


def _missed(schedule: Schedule, dropped: datetime, ticks: Sequence[datetime]) -> Tick:
    until = f", and those up to {ticks[0]:%Y-%m-%d %H:%M:%S} UTC" if ticks else ", and all since"
    return Tick(schedule=schedule, tick=dropped, note=f"missed: nobody looked in time{until}")


def _enqueue(schedule: Schedule, tick: datetime, using: str) -> Tick:
    """One job, unless the last one is in the way."""
    row = Tick(schedule=schedule, tick=tick, kind=schedule.kind, target=schedule.target)
    if schedule.overlap != Overlap.ALLOW and schedule.last_job:
        row.note = _overlap(schedule, using)
        if row.note and schedule.overlap == Overlap.SKIP:
            return row
    row.job = schedule.target_kind().enqueue(schedule, using)
    schedule.last_kind, schedule.last_target = schedule.kind, schedule.target
    schedule.last_job = row.job
    return row


def _overlap(schedule: Schedule, using: str) -> str:
    """What became of the last job, if it has not ended; '' where it is in nobody's way."""
    kind, target, job = TARGETS.get(schedule.last_kind), schedule.last_target, schedule.last_job
    try:
        state = kind.state(target, job, using) if kind else State.ENDED
    except ValidationError:  # its table is gone, and with it the job
        return ""
    if kind is None or state is State.ENDED:
        return ""
    if schedule.overlap == Overlap.SKIP:
        return f"skipped: job {job} of the last tick was {state.value}"
    if state is State.WAITING and kind.cancel(target, job, using):
        return f"job {job} of the last tick was still waiting, and was cancelled"
    return f"job {job} of the last tick was running, and went on"


def note_last(schedule: Schedule, using: str) -> None:
    """What it enqueued last, for the next overlap."""
    columns = ("last_kind", "last_target", "last_job")
    values = {name: getattr(schedule, name) for name in columns}
    Schedule.objects.using(using).filter(pk=schedule.pk).update(**values)


def _prune(schedule: Schedule, using: str) -> None:
    rows = Tick.objects.using(using).filter(schedule=schedule)
    newest = rows.order_by("-tick").values_list("tick", flat=True)
    last = newest[KEPT_TICKS - 1 : KEPT_TICKS].first()
    if last is not None:
        rows.filter(tick__lt=last).delete()


def _record(schedule: Schedule, error: Exception, now: datetime, using: str) -> None:
    """It is tried again later, for the same tick; meanwhile it holds up nobody."""
    problem = problems_of(error)
    rows = Schedule.objects.using(using).filter(pk=schedule.pk, next_tick=schedule.next_tick)
    again = now + timedelta(seconds=RETRY_SECONDS)
    changed = rows.update(next_at=again, error=clean(problem)[:ERROR_CHARS_MAX])
    if changed and not schedule.error:
        logger.warning("schedule %s: nothing enqueued: %s", schedule, problem)


def run_now(schedule: Schedule, by: str) -> Tick:
    """Enqueue one job at once, whatever the timing says; a row of its own says who asked.

    Raises what the target raises, or ``ScheduleGone``; then nothing was written.
    """
    using = schedule.alias()
    with transaction.atomic(using=using):
        # Two who ask at once come one after the other.
        rows = Schedule.objects.using(using).filter(pk=schedule.pk)
        if not rows.update(count=F("count") + 1):
            raise ScheduleGone
        tick, ticks = whole(db_now(using)), Tick.objects.using(using).filter(schedule=schedule)
        while ticks.filter(tick=tick).exists():
            tick += timedelta(microseconds=1)
        row = Tick(schedule=schedule, tick=tick, kind=schedule.kind, target=schedule.target)
        row.job = schedule.target_kind().enqueue(schedule, using)
        row.note = clean(f"asked for by {by}")[:200]
        schedule.last_kind, schedule.last_target = schedule.kind, schedule.target
        schedule.last_job = row.job
        note_last(schedule, using)
        row.save(using=using)
    return row


def why_not(schedule: Schedule, error: Exception) -> str:
    """What was in the way of somebody who asked for something, and what happens next."""
    using = schedule.alias()
    if not Schedule.objects.using(using).filter(pk=schedule.pk).exists():
        text = _("%(name)s was deleted meanwhile: nothing was enqueued, and it ticks no more")
        return text % {"name": schedule}
    problem, tick = problems_in_words(error), ""
    if isinstance(error, IntegrityError):
        text = _("its arguments name a row that is gone, or one that is there: %(problem)s")
        problem = text % {"problem": problem}
    text = _("%(name)s: nothing was enqueued: %(problem)s; it never ticks again")
    if schedule.is_paused:
        text = _("%(name)s: nothing was enqueued: %(problem)s; it stays paused")
    elif schedule.next_tick:
        text = _(
            "%(name)s: nothing was enqueued: %(problem)s; its next tick, %(tick)s, meets the same "
            "until it is mended, paused or deleted"
        )
        tick = f"{as_utc(schedule.next_tick):%Y-%m-%d %H:%M:%S} UTC"
    return text % {"name": schedule, "problem": problem, "tick": tick}
