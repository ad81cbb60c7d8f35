"""One look at the schedules of a database: what is due is enqueued, each tick once.

Any number of processes may look. A schedule belongs to the one that moves its ``next_tick`` on,
which nobody else can do from the same tick; its jobs and the rows of its ticks are written in that
transaction.
"""

import logging
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.models import F
from django.db.utils import Error, IntegrityError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..dialects import ErrorKind, dialect_of
from ..fields import DbNow
from ..guard import capture, clean
from .after_commit import Hooks
from .models import ERROR_CHARS_MAX, Schedule, Tick, as_utc, db_now
from .planning import plan, whole
from .problems import problems_in_words, problems_of, wrong
from .targets import TARGETS
from .ticking import Turn, fire, known_ticks, note_asked, prune, steps

logger = logging.getLogger("django_dbqueue")

BATCH = 100  # schedules in one transaction
RETRY_SECONDS = 60  # until a schedule whose target is broken is tried again
SOON_SECONDS = 5  # the same after an error that passes, such as a lock: before a tick is missed
PLANNED = {"next_at__isnull": False, "next_tick__isnull": False}
UNREADABLE = gettext_lazy("next_tick cannot be read: pause the schedule, and resume it")
# Of one look, at one target, and at rows of schedules; each may take as long as a connection waits.
LOCK_WAITS_MAX = 2


class ScheduleGone(Exception):
    """Somebody has deleted it meanwhile."""


@dataclass(frozen=True)
class First:
    """The schedule that is to be looked at first, in how many seconds, 0 or less where it is due;
    and what the clock of the database shows."""

    key: int
    wait: float
    now: datetime
    is_readable: bool  # whether its time is one: a hand may have written anything


Waits = dict[tuple[str, str], list[Exception]]


@dataclass(frozen=True)
class Look:
    """One look; ``before_turn`` is called before each schedule's. ``locked``: by target the errors
    of those that have waited for a lock: it may be that of a whole table."""

    using: str
    is_careful: bool = False
    before_turn: Callable[[], object] = lambda: None
    locked: Waits = field(default_factory=lambda: defaultdict(list))


def first_due(using: str) -> First | None:
    """None without any that ticks."""
    rows: Any = Schedule.objects.using(using).filter(**PLANNED).order_by("next_at")
    # As an instance: by its values it would be sorted as it is read, which no index serves.
    first = rows.annotate(now=DbNow()).only("next_at").first()
    if first is None:
        return None
    now, is_readable = as_utc(first.now), first.next_at is not None
    wait = (as_utc(first.next_at) - now).total_seconds() if is_readable else 0.0
    return First(first.pk, wait, now, is_readable)


def due_in(using: str) -> float | None:
    """Seconds until a schedule is to be looked at, 0 or less where one is due; None without any."""
    first = first_due(using)
    return None if first is None else first.wait


def run_due(using: str = DEFAULT_DB_ALIAS, *, is_careful: bool = False) -> int:
    """Enqueue what is due on a database, until nothing is; how many schedules were looked at.

    Workers do this by themselves. ``is_careful``: each in a transaction of its own, and put off
    before it, since one of them may never return. ``Error`` where the database is away, or somebody
    has locked a schedule itself: then nothing was lost, and the next look goes on.
    """
    count = 0
    while looked := look(Look(using, is_careful)):
        count += looked
    return count


def look(how: Look) -> int:
    """At what is due, the first ``BATCH`` schedules of it; how many there were."""
    using = how.using
    first, rows = first_due(using), Schedule.objects.using(using).filter(**PLANNED)
    if first is None or first.wait > 0:
        return 0
    if not first.is_readable:
        rows.filter(pk=first.key).update(next_at=DbNow())
    now = db_now(using)
    rows = rows.filter(next_at__lte=now)
    # In the order of their keys: two that write the same rows wait for each other in one order.
    due = sorted(rows.order_by("next_at")[:BATCH], key=lambda one: one.pk)
    turns = [turn for one in due if (turn := _turn(one, now, using)) is not None]
    shared = [] if how.is_careful else [one for one in turns if _may_share(one)]
    if shared and _failure(shared, how) is None:
        turns = [one for one in turns if not _may_share(one)]
    _fire_each(turns, how)
    return len(due)


def _may_share(turn: Turn) -> bool:
    """One that failed at its last try, or never returned, may spoil the transaction of others."""
    return TARGETS[turn.schedule.kind].rolls_back and not turn.schedule.was_tried


def _may_hang(turn: Turn) -> tuple[bool, bool]:
    """As it did the last time; and what goes out to a broker rather than what is written here."""
    return turn.schedule.was_tried, not TARGETS[turn.schedule.kind].rolls_back


def _turn(schedule: Schedule, now: datetime, using: str) -> Turn | None:
    """None, and the schedule says why, where it cannot be planned."""
    with capture() as outcome:
        if schedule.next_tick is None:
            raise wrong("next_tick", UNREADABLE)
        schedule.target_kind()
        missed, within = schedule.missed, schedule.catch_up_within
        first, is_tried = as_utc(schedule.next_tick), schedule.was_tried
        planned = plan(schedule.ticks(), first, now, missed, within, is_tried=is_tried)
        return Turn(schedule, planned)
    assert outcome.error is not None, "else it would have returned"
    record(schedule, outcome.error, using)
    return None


def _fire_each(turns: list[Turn], how: Look) -> None:
    """In transactions of their own, those that may hang last, and else in any order: none comes too
    late each time. A schedule whose own row somebody has locked is left alone, and holds up no
    other."""
    using, held_up = how.using, list[Error]()
    random.shuffle(turns)
    turns.sort(key=_may_hang)
    for turn in turns:
        try:
            _fire_alone(turn, how)
        except Error as error:
            # With one writer at a time the lock is that of all rows.
            is_row = not dialect_of(connections[using]).one_writer
            if not is_row or _kind(error, using) is not ErrorKind.AGAIN:
                raise
            held_up.append(error)
            if len(held_up) >= LOCK_WAITS_MAX:
                break
    if held_up:
        raise held_up[0]


def _fire_alone(turn: Turn, how: Look) -> None:
    """What its target raises is recorded."""
    using, waits = how.using, how.locked[turn.schedule.kind, turn.schedule.target]
    for step in steps(turn):
        if how.is_careful or turn.schedule.was_tried:
            _put_off(turn.schedule, using)
        error = waits[0] if len(waits) >= LOCK_WAITS_MAX else _failure([step], how)
        if error is not None:
            record(turn.schedule, error, using)
            if _kind(error, using) is ErrorKind.AGAIN:
                waits.append(error)
        if error is not None or step.is_lost:
            return


def _put_off(schedule: Schedule, using: str) -> None:
    """For as long as if it had failed, in case it never returns; its next tick undoes that."""
    rows = Schedule.objects.using(using).filter(pk=schedule.pk, next_tick=schedule.next_tick)
    rows.update(next_at=DbNow(plus=RETRY_SECONDS))


def _failure(turns: Sequence[Turn], how: Look) -> Exception | None:
    """Do them in one transaction, since commits are what takes the time; why it failed, if it did:
    then nothing was done. ``Error`` where that is their own database's fault."""
    using, known = how.using, None
    session = connections[using].connection
    with capture() as outcome, transaction.atomic(using=using):
        known, hooks, rows = known_ticks(turns, using), Hooks(using), list[Tick]()
        how.before_turn()
        for turn in turns:
            rows += fire(turn, known, using)
            hooks.note(turn.schedule)
        Tick.objects.using(using).bulk_create(rows)
        hooks.fence()
    # Of a lost one Django has made another by now; a target may have lost a connection of its own.
    is_lost = connections[using].connection is not session
    # Until ticks are known no target was asked: on SQLite, say, somebody else is writing.
    if isinstance(outcome.error, Error) and (known is None or is_lost):
        raise outcome.error
    return outcome.error


def _kind(error: Exception, using: str) -> ErrorKind | None:
    return dialect_of(connections[using]).error_kind(error) if isinstance(error, Error) else None


def record(schedule: Schedule, error: Exception, using: str) -> None:
    """It is tried again later, for the same tick; meanwhile it holds up nobody."""
    problem = problems_of(error)
    pause = RETRY_SECONDS if _kind(error, using) is None else SOON_SECONDS
    rows = Schedule.objects.using(using).filter(pk=schedule.pk, **PLANNED)
    if schedule.next_tick is not None:
        rows = rows.filter(next_tick=schedule.next_tick)
    changed = rows.update(next_at=DbNow(plus=pause), error=clean(problem)[:ERROR_CHARS_MAX])
    if changed and not schedule.error:
        logger.warning("schedule %s: nothing enqueued: %s", schedule, problem)


def run_now(schedule: Schedule, by: str) -> Tick:
    """Enqueue one job at once, whatever the timing says; a row of its own says who asked.

    Raises what the target raises, or ``ScheduleGone``; then nothing was written.
    """
    using = schedule.alias()
    with transaction.atomic(using=using):
        hooks = Hooks(using)
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
        note_asked(schedule, row, using)
        row.save(using=using)
        prune(schedule, rows.values_list("count", flat=True).get() - 1, 1, using)
        hooks.note(schedule)
        hooks.fence()
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
