"""What one turn of a schedule writes: its next tick, the jobs of those that are due, and a row of
each, all in the transaction of the caller."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import F

from ..dialects import dialect_of
from .models import Overlap, Schedule, Tick, as_utc
from .planning import Plan
from .targets import TARGETS, State

# The newest ticks of a schedule whose rows stay; up to so many more wait to be deleted.
KEPT_TICKS = 50
OF_LAST = ("last_kind", "last_target", "last_job")  # what it enqueued last


@dataclass
class Turn:
    """What one schedule is to do now; ``is_lost``: somebody else was faster."""

    schedule: Schedule
    plan: Plan
    is_lost: bool = False


def steps(turn: Turn) -> Iterator[Turn]:
    """A turn for each transaction: one for each tick where what was sent stays sent, so that it is
    not sent again when a later call fails. The schedule moves on once a step is done."""
    schedule, its = turn.schedule, turn.plan
    if TARGETS[schedule.kind].rolls_back or len(its.ticks) < 2:
        yield turn
        return
    dropped = its.dropped
    for tick, after in zip(its.ticks, [*its.ticks[1:], its.next], strict=True):
        yield Turn(schedule, Plan([tick], dropped, after, its.until))
        schedule.count += 1 + int(dropped is not None)
        schedule.next_tick, schedule.next_at, schedule.error = after, after, ""
        dropped = None


def known_ticks(turns: Sequence[Turn], using: str) -> set[tuple[int, datetime]]:
    """The ticks among the due ones that have a row: the clock of the database was set back."""
    due = {tick for turn in turns for tick in turn.plan.ticks}
    due |= {turn.plan.dropped for turn in turns if turn.plan.dropped is not None}
    rows = Tick.objects.using(using).filter(schedule__in=[turn.schedule.pk for turn in turns])
    found = rows.filter(tick__gte=min(due), tick__lte=max(due)) if due else rows.none()
    return {(key, as_utc(tick)) for key, tick in found.values_list("schedule_id", "tick")}


def fire(turn: Turn, known: set[tuple[int, datetime]], using: str) -> list[Tick]:
    """Move it on, and enqueue its jobs; the rows to write, none where somebody else was faster."""
    schedule, its = turn.schedule, turn.plan
    ticks = [tick for tick in its.ticks if (schedule.pk, tick) not in known]
    dropped = None if (schedule.pk, its.dropped) in known else its.dropped
    rows = Schedule.objects.using(using).filter(pk=schedule.pk, next_tick=schedule.next_tick)
    steps = {"next_tick": its.next, "next_at": its.next, "error": ""}
    if schedule.overlap == Overlap.ALLOW:
        steps["last_job"] = ""  # its row says it, should an overlap be asked for later
    number = len(ticks) + int(dropped is not None)
    if not rows.update(**steps, count=F("count") + number):
        _respell(schedule, using)
        turn.is_lost = True
        return []
    if schedule.overlap != Overlap.ALLOW:
        _read_last(schedule, using)
    made = [] if dropped is None else [_missed(schedule, dropped, its.until)]
    made += [_enqueue(schedule, tick, using) for tick in ticks]
    if schedule.overlap != Overlap.ALLOW:
        note_last(schedule, using)
    prune(schedule, schedule.count, len(made), using)
    return made


def _respell(schedule: Schedule, using: str) -> None:
    """On SQLite a hand may have written the tick in other words, which no filter of ours finds. All
    others wait for this transaction."""
    if not dialect_of(connections[using]).one_writer:
        return
    rows = Schedule.objects.using(using).filter(pk=schedule.pk)
    if rows.values_list("next_tick", flat=True).first() == schedule.next_tick:
        rows.update(next_tick=schedule.next_tick)


def _missed(schedule: Schedule, dropped: datetime, later: datetime | None) -> Tick:
    why = "it could not be enqueued" if schedule.was_tried else "nobody looked in time"
    until = f", and those up to {later:%Y-%m-%d %H:%M:%S} UTC" if later else ", and all since"
    return Tick(schedule=schedule, tick=dropped, note=f"missed: {why}{until}")


def _enqueue(schedule: Schedule, tick: datetime, using: str) -> Tick:
    """One job, unless the last one is in the way."""
    row = Tick(schedule=schedule, tick=tick, kind=schedule.kind, target=schedule.target)
    if schedule.overlap != Overlap.ALLOW and schedule.last_job:
        row.note = _overlap(schedule, using)
        if row.note and schedule.overlap == Overlap.SKIP:
            return row
    row.job = schedule.target_kind().enqueue(schedule, using)
    _take_as_last(schedule, row)
    return row


def _overlap(schedule: Schedule, using: str) -> str:
    """What became of the last job, if it has not ended; '' where it is in nobody's way."""
    state = _state_of_last(schedule, using)
    if state is State.ENDED and _take_newest(schedule, using):
        state = _state_of_last(schedule, using)  # somebody has run it while that one ran
    kind, target, job = TARGETS.get(schedule.last_kind), schedule.last_target, schedule.last_job
    if kind is None or state is State.ENDED:
        return ""
    if schedule.overlap == Overlap.SKIP:
        return f"skipped: job {job} of the last tick was {state.value}"
    if state is State.WAITING and kind.cancel(target, job, using):
        return f"job {job} of the last tick was still waiting, and was cancelled"
    return f"job {job} of the last tick was running, and went on"


def _state_of_last(schedule: Schedule, using: str) -> State:
    kind = TARGETS.get(schedule.last_kind)
    try:
        return kind.state(schedule.last_target, schedule.last_job, using) if kind else State.ENDED
    except ValidationError:  # its table is gone, and with it the job
        return State.ENDED


def note_asked(schedule: Schedule, row: Tick, using: str) -> None:
    """What a person has asked for is the last one, unless the one before may be in the way."""
    _read_last(schedule, using)
    is_last = schedule.overlap == Overlap.ALLOW or not schedule.last_job
    if is_last or _state_of_last(schedule, using) is State.ENDED:
        _take_as_last(schedule, row)
        note_last(schedule, using)


def _take_as_last(schedule: Schedule, row: Tick) -> None:
    schedule.last_kind, schedule.last_target, schedule.last_job = row.kind, row.target, row.job


def note_last(schedule: Schedule, using: str) -> None:
    """What it enqueued last, for the next overlap."""
    values = {name: getattr(schedule, name) for name in OF_LAST}
    Schedule.objects.using(using).filter(pk=schedule.pk).update(**values)


def _read_last(schedule: Schedule, using: str) -> None:
    """As it is now that the row is ours: somebody may have run it since it was read. Until now an
    overlap may have been allowed: then its ticks say it."""
    rows = Schedule.objects.using(using).filter(pk=schedule.pk)
    for name, value in rows.values(*OF_LAST).get().items():
        setattr(schedule, name, value)
    if not schedule.last_job:
        _take_newest(schedule, using)


def _take_newest(schedule: Schedule, using: str) -> bool:
    """Whether the newest row has another job than the last one."""
    ticks = Tick.objects.using(using).filter(schedule=schedule).exclude(job="")
    row = ticks.order_by("-tick").first()
    if row is None or row.job == schedule.last_job:
        return False
    _take_as_last(schedule, row)
    return True


def prune(schedule: Schedule, count: int, more: int, using: str) -> None:
    """Delete what became of older ticks, once in so many; ``count`` were there before."""
    if count % KEPT_TICKS + more < KEPT_TICKS:
        return
    rows = Tick.objects.using(using).filter(schedule=schedule)
    newest = rows.order_by("-tick").values_list("tick", flat=True)
    last = newest[KEPT_TICKS - 1 : KEPT_TICKS].first()
    if last is not None:
        rows.filter(tick__lt=last).delete()
