"""What becomes due when, in groups."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from ..fields import DbNow
from ..states import Status
from .cursor import Place
from .pagination import BY_TIME, MOST_ROWS, Edges, capped, ordering_of

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


def schedule(rows: QuerySet[Any], edges: Edges) -> list[Group]:
    """Delayed jobs by the time at which they are due; at most 1,000 of each group are counted,
    and with a filter only those among the next 1,000 of all."""
    delayed, edge = ordering_of(rows, Status.DELAYED, edges=edges).within(None, backwards=False)
    # The clock as a value: with the expression, PostgreSQL would search no index.
    first = delayed.order_by(*BY_TIME.names).annotate(dbqueue_now=DbNow())[:1]
    return [one for row in first for one in _groups(delayed, row.dbqueue_now, edge)]


def _groups(delayed: QuerySet[Any], now: datetime, edge: Place | None) -> Iterator[Group]:
    begin = None
    for name, seconds in GROUPS.items():
        end = None if seconds is None else _later(now, seconds)
        # In the order of the index: without one, PostgreSQL may look up all of its entries first.
        rows = _between(delayed, begin, end).order_by("retry_at")[: MOST_ROWS + 1]
        is_whole = edge is None or (end is not None and end < edge[0])
        yield Group(name, str(capped(rows.count(), not is_whole)))
        begin = end


def _between(delayed: QuerySet[Any], begin: datetime | None, end: datetime | None) -> QuerySet[Any]:
    if begin is not None:
        delayed = delayed.filter(retry_at__gt=begin)
    return delayed if end is None else delayed.filter(retry_at__lte=end)


def _later(moment: datetime, seconds: float) -> datetime:
    aware = moment if timezone.is_aware(moment) else timezone.make_aware(moment)
    return aware + timedelta(seconds=seconds)
