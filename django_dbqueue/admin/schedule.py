"""What becomes due when, in groups."""

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy, pgettext_lazy

from ..fields import DbNow, aware
from ..operate.keyset import COUNTED_ROWS_MAX, WindowEnds, capped, keyset_of
from ..operate.orders import BY_TIME
from ..states import Status

# With their ends, in seconds from now; None = never.
GROUPS = (
    (gettext_lazy("overdue"), 0),
    (gettext_lazy("within a minute"), 60),
    (gettext_lazy("within 10 minutes"), 600),
    (gettext_lazy("within an hour"), 3600),
    (gettext_lazy("within 6 hours"), 6 * 3600),
    (gettext_lazy("within a day"), 86400),
    (pgettext_lazy("jobs are due", "later"), None),
)


@dataclass(frozen=True)
class Group:
    name: str
    count: str


def schedule(rows: QuerySet[Any], window_ends: WindowEnds) -> list[Group]:
    """Delayed jobs by the time at which they are due; at most 1,000 of each group are counted,
    and with a filter only those among the next 1,000 of all."""
    keyset = keyset_of(rows, Status.DELAYED, window_ends=window_ends)
    delayed, window_end = keyset.window(None, backwards=False)
    # The clock as a value: with the expression, PostgreSQL would search no index.
    first = delayed.order_by(BY_TIME.names[0]).annotate(dbqueue_now=DbNow()).first()
    if first is None:
        return []
    now, begin, groups = aware(first.dbqueue_now).astimezone(UTC), None, []
    for name, seconds in GROUPS:
        end = None if seconds is None else now + timedelta(seconds=seconds)
        group = delayed if begin is None else delayed.filter(retry_at__gt=begin)
        if end is not None:
            group = group.filter(retry_at__lte=end)
        # In the order of the index: without one, PostgreSQL may look up all of its entries first.
        number = group.order_by("retry_at")[: COUNTED_ROWS_MAX + 1].count()
        is_whole = window_end is None or (end is not None and end < aware(window_end[0]))
        groups.append(Group(str(name), str(capped(number, not is_whole))))
        begin = end
    return groups
