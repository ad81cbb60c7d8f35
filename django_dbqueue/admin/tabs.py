"""The states of a queue table as tabs above its list, each with the number of its jobs."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest

from ..states import Status
from .lists import MOST_ROWS, StateFilter, count_shown, shown

# What has to be done first, then what is done.
ORDER = (Status.READY, Status.CLAIMED, Status.DELAYED, Status.BURIED, Status.DONE)
ALL = "all"
TIMED = (Status.CLAIMED, Status.DELAYED)

# By state, None for all of them.
Counts = dict[Status | None, str]


@dataclass(frozen=True)
class Tab:
    name: str
    count: str
    url: str
    is_selected: bool


def tabs(
    changelist: Any, selected: Status | None, words: dict[Status, str], counts: Counts
) -> list[Tab]:
    """Links that change the state and keep the other filters."""
    return [
        Tab(
            name=ALL if status is None else words[status],
            count=counts[status],
            url=_url(changelist, status),
            is_selected=status == selected,
        )
        for status in (None, *ORDER)
    ]


def _url(changelist: Any, status: Status | None) -> str:
    value = None if status is None else str(status.value)
    query: str = changelist.get_query_string({StateFilter.parameter_name: value})
    return query


def selected_state(request: HttpRequest) -> Status | None:
    known = {str(status.value): status for status in Status}
    return known.get(request.GET.get(StateFilter.parameter_name, ""))


def rows_of_all_states(changelist: Any, request: HttpRequest) -> QuerySet[Any]:
    """What the list shows, of every state."""
    if selected_state(request) is None:
        rows: QuerySet[Any] = changelist.queryset
    else:
        rows = changelist.get_queryset(request, [StateFilter.parameter_name])
    return rows.order_by()


def count_each(rows: QuerySet[Any]) -> Counts:
    """The rows of each state; at most 10,000 are counted."""
    counts: Counts = {None: count_shown(rows)}
    return counts | {status: count_shown(_in_state(rows, status)) for status in Status}


def _in_state(rows: QuerySet[Any], status: Status) -> QuerySet[Any]:
    rows = rows.filter(status=status)
    # The index over them may hold only rows that move by themselves, as all of these do.
    return rows.filter(retry_at__isnull=False) if status in TIMED else rows


def count_newest(rows: QuerySet[Any]) -> Counts:
    """For a table that knows no index on the state: of the newest 10,000 rows, so "at least"."""
    newest = rows.order_by("-pk")[: MOST_ROWS + 1]
    each = {f"n{s.value}": Count("pk", filter=Q(status=s.value)) for s in Status}
    found = newest.aggregate(everything=Count("pk"), **each)
    more = found["everything"] > MOST_ROWS
    counts: Counts = {None: shown(found["everything"])}
    for status in Status:
        counts[status] = shown(found[f"n{status.value}"], more)
    return counts
