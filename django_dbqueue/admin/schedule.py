"""What becomes due when, in groups."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from ..fields import DbNow
from ..states import Status
from .lists import count_shown

# Their ends, in seconds from now.
GROUPS = {
    "overdue": 0,
    "within a minute": 60,
    "within 10 minutes": 600,
    "within an hour": 3600,
    "within 6 hours": 6 * 3600,
    "within a day": 86400,
    "later": None,
}


@dataclass(frozen=True)
class Group:
    name: str
    count: str


def schedule(rows: QuerySet[Any]) -> list[Group]:
    """Delayed jobs by the time at which they are due; at most 10,000 of each group are counted."""
    delayed = rows.filter(status=Status.DELAYED)
    # PostgreSQL would work out the expression for every row, and use no index.
    now = delayed.values_list(DbNow(), flat=True).first()
    return [] if now is None else list(_groups(delayed, now))


def _groups(delayed: QuerySet[Any], now: datetime) -> Any:
    begin = None
    for name, seconds in GROUPS.items():
        end = None if seconds is None else _later(now, seconds)
        yield Group(name, count_shown(_between(delayed, begin, end)))
        begin = end


def _between(delayed: QuerySet[Any], begin: datetime | None, end: datetime | None) -> QuerySet[Any]:
    if begin is not None:
        delayed = delayed.filter(retry_at__gt=begin)
    return delayed if end is None else delayed.filter(retry_at__lte=end)


def _later(moment: datetime, seconds: float) -> datetime:
    aware = moment if timezone.is_aware(moment) else timezone.make_aware(moment)
    return aware + timedelta(seconds=seconds)
