"""Ticks that were planned by a clock that was ahead, once it is set back, or another server's."""

from datetime import datetime, timedelta

from django.db.models import F

from ..guard import capture
from .firing import RETRY_SECONDS, UNREADABLE, record
from .models import Schedule, as_utc, db_now
from .planning import following
from .problems import wrong


def replan(using: str) -> None:
    """Bring forward what is planned later than its timing says. What has ticked by the wrong clock
    does not tick again: it has its row."""
    now = db_now(using)
    for schedule in Schedule.objects.using(using).filter(next_tick__gt=now).order_by("pk"):
        with capture() as outcome:
            _bring_forward(schedule, now, using)
        if outcome.error is not None:
            record(schedule, outcome.error, using)
    # Nobody puts off for longer what is tried again.
    longest = now + timedelta(seconds=RETRY_SECONDS)
    due = Schedule.objects.using(using).filter(next_tick__lte=now, next_at__gt=longest)
    due.update(next_at=F("next_tick"))


def _bring_forward(schedule: Schedule, now: datetime, using: str) -> None:
    if schedule.next_tick is None:
        raise wrong("next_tick", UNREADABLE)
    tick, planned = following(schedule.ticks(), now), as_utc(schedule.next_tick)
    if schedule.next_at is None or (tick is not None and tick < planned):
        same = Schedule.objects.using(using).filter(pk=schedule.pk, next_tick=planned)
        # Another tick, that has not failed.
        same.update(next_tick=tick, next_at=tick, error="")
