"""The states of a queue table as tabs above its list, each with the number of its jobs."""

from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest

from ..states import Status
from . import pagination
from .lists import StateFilter

# What has to be done first, then what is done.
ORDER = (Status.READY, Status.CLAIMED, Status.DELAYED, Status.BURIED, Status.DONE)
ALL = "all"

# By state, None for all of them.
Counts = dict[Status | None, pagination.Count]


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
            count=str(counts[status]),
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


def count_each(rows: QuerySet[Any], known: Counts, edges: pagination.Edges) -> Counts:
    """The rows of each state, where that is not known; at most 1,000 are counted."""
    asked = [status for status in (None, *Status) if status not in known]
    each = {status: pagination.ordering_of(rows, status, edges=edges) for status in asked}
    counted = {
        status: replace(way, span=pagination.TAB_LOOK).count() for status, way in each.items()
    }
    return known | counted


def count_newest(rows: QuerySet[Any]) -> Counts:
    """For a table that knows no index on the state: of its newest 1,000 rows, so "at least"."""
    newest, edge = pagination.newest(rows)
    each = {f"n{s.value}": Count("pk", filter=Q(status=s.value)) for s in Status}
    found = newest.aggregate(everything=Count("pk"), **each)
    counts: Counts = {None: pagination.capped(found["everything"], edge)}
    for status in Status:
        counts[status] = pagination.capped(found[f"n{status.value}"], edge)
    return counts
