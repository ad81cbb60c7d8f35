"""What is to be done at a look: which ticks are due, and what becomes of those that were missed."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import models
from django.utils.translation import gettext_lazy

from .timing import Timing, latest, newest

LATE_SECONDS = 60  # after which a tick that nobody looked for counts as missed
CATCH_UP_MAX = 1000  # missed ticks of one schedule that ``all`` makes up for
CHUNK_TICKS = 50  # of one schedule in one transaction; the rest follows at once


class Missed(models.TextChoices):
    SKIP = "skip", gettext_lazy("skip them")
    LATEST = "latest", gettext_lazy("make up for the latest")
    ALL = "all", gettext_lazy("make up for all")


@dataclass(frozen=True)
class Plan:
    """The ticks to enqueue, the first one that is left out, and the one to look for next;
    ``until``: the first one to enqueue after the one that is left out."""

    ticks: list[datetime] = field(default_factory=list)
    dropped: datetime | None = None
    next: datetime | None = None
    until: datetime | None = None


def plan(
    timing: Timing, first: datetime, now: datetime, missed: str, within: int, *, is_tried: bool
) -> Plan:
    """``first`` is the tick that was to come next, ``is_tried``: and failed, so that it is not
    missed; ``within``: the seconds for which that one, ``latest`` and ``all`` look back."""
    recent = max(first, now - timedelta(seconds=LATE_SECONDS))
    oldest = max(first, now - timedelta(seconds=within))
    due = newest(timing, recent, now, CATCH_UP_MAX)
    if missed == Missed.ALL and oldest < recent:
        due = newest(timing, oldest, now, CATCH_UP_MAX)
    elif missed == Missed.LATEST and not due:
        found = latest(timing, oldest, now)
        due = [found] if found else []
    if is_tried and oldest == first <= now:
        due = [first, *(tick for tick in due if tick != first)]
        left_out = following(timing, first)
    elif first in due:
        left_out = None
    else:  # in another time zone of the project's there may be no such tick any more
        left_out = following(timing, first - timedelta(microseconds=1))
    dropped = None if left_out is None or left_out > now or left_out in due else left_out
    until = next((tick for tick in due if dropped and tick > dropped), None)
    more = due[CHUNK_TICKS] if len(due) > CHUNK_TICKS else following(timing, now)
    return Plan(due[:CHUNK_TICKS], dropped, more, until)


def following(timing: Timing, now: datetime) -> datetime | None:
    """The first tick later than now."""
    return next(timing.after(now.replace(microsecond=0)), None)


def whole(instant: datetime) -> datetime:
    """Ticks come at whole seconds; what a person asks for comes between them."""
    return instant + timedelta(microseconds=1) if not instant.microsecond else instant
