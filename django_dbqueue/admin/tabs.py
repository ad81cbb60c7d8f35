"""The states of a queue table as tabs above its list, each with the number of its jobs."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from django.db import models
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import pgettext_lazy

from ..lifecycle.table import table_of
from ..metrics.numbers import Count, Stored, sum_of
from ..operate import keyset as pagination
from ..operate.conditions import asked_queue
from ..operate.cursor import BY_KEY
from ..states import Status
from . import words
from .lists import StateFilter

# What has to be done first, then what is done.
TAB_ORDER = (Status.READY, Status.CLAIMED, Status.DELAYED, Status.BURIED, Status.DONE)
ALL = pgettext_lazy("jobs of every state", "all")

# By state, None for all of them.
Counts = dict[Status | None, Count]


@dataclass(frozen=True)
class Tab:
    name: str
    count: str
    url: str
    is_selected: bool
    hint: str = ""  # what its name means


def tabs(
    changelist: Any, selected: Status | None, labels: dict[Status, Any], counts: Counts
) -> list[Tab]:
    """Links that change the state and keep the other filters."""
    return [
        Tab(
            name=str(ALL if status is None else labels[status]),
            count=str(counts[status]),
            url=changelist.get_query_string(
                {StateFilter.parameter_name: None if status is None else str(status.value)}
            ),
            is_selected=status == selected,
            hint="" if status is None else str(words.STATES[status]),
        )
        for status in (None, *TAB_ORDER)
    ]


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


def count_each(rows: QuerySet[Any], known: Counts, window_ends: pagination.WindowEnds) -> Counts:
    """The rows of each state, where that is not known; at most 1,000 are counted."""
    counts = dict(known)
    for status in (None, *Status):
        if status not in known:
            keyset = pagination.keyset_of(rows, status, window_ends=window_ends)
            counts[status] = replace(keyset, window_rows=pagination.TAB_WINDOW_ROWS).count()
    return counts


def as_counted(rows: QuerySet[Any], counts: Counts) -> Counts:
    """Where there are more than were looked at, as they were counted in the background: of a queue,
    or of the whole table. For a list with other filters that says nothing."""
    is_by_queue, queue = asked_queue(rows)
    if not is_by_queue or not any(one.is_at_least for one in counts.values()):
        return counts
    stored = Stored(table_of(rows.model, rows.db))
    found: Counts = {
        state: stored.count(state, counts[state].number, queue)
        if counts[state].is_at_least
        else counts[state]
        for state in Status
    }
    whole = counts[None]
    return {**found, None: sum_of(found.values()) if whole.is_at_least else whole}


def count_failed(rows: QuerySet[Any]) -> Counts:
    """The rows with one failure, by its index; at most 1,000 of those that are buried, and as many
    of the others."""
    most = pagination.COUNTED_ROWS_MAX
    buried = pagination.keyset_of(rows, Status.BURIED).count()
    waiting, window_end = pagination.keyset_of_retried(rows).window(None, backwards=False)
    found = Counter(waiting.order_by("failed_at").values_list("status", flat=True)[: most + 1])
    is_more = window_end is not None or found.total() > most
    counts: Counts = {s: pagination.capped(found[s.value], is_more) for s in Status}
    counts[Status.BURIED] = buried
    is_at_least = is_more or buried.is_at_least
    counts[None] = pagination.capped(buried.number + found.total(), is_at_least)
    counts[Status.DONE] = pagination.capped(0, is_at_least=False)  # which ends it
    return counts


def count_newest(rows: QuerySet[Any]) -> Counts:
    """For a table that knows no index on the state: of its newest 1,000 rows, so "at least"."""
    whole = rows.model._base_manager.using(rows.db)
    keyset = pagination.Keyset(rows.order_by(), BY_KEY, whole)
    newest, window_end = keyset.window(None, backwards=False)
    has_more = window_end is not None
    each = {f"n{s.value}": models.Count("pk", filter=Q(status=s.value)) for s in Status}
    found = newest.aggregate(everything=models.Count("pk"), **each)
    counts: Counts = {None: pagination.capped(found["everything"], has_more)}
    for status in Status:
        counts[status] = pagination.capped(found[f"n{status.value}"], has_more)
    return counts
