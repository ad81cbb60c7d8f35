"""The admin of a queue table: ``class ThumbnailAdmin(JobAdmin)`` and nothing else."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from ..models import Job
from ..operate.cursor import BY_FAILURE, BY_KEY
from ..operate.keyset import keyset_of_parked
from ..operate.orders import BY_END, ORDERS
from ..states import Status
from . import search, tabs
from .actions import (
    BURY,
    CANCEL,
    KICK,
    KICK_WITH,
    MOVE,
    PRIORITIZE,
    RELEASE,
    RESCHEDULE,
    act,
)
from .base import ReadOnlyAdmin
from .changelist import NOT_FILTERS
from .job_page import JobPage
from .lists import (
    FailureFilter,
    KeyFilter,
    QueueFilter,
    RetryingFilter,
    StateFilter,
    columns,
    is_of_failure,
)
from .schedule import schedule
from .times import CreatedFilter, EndedFilter, is_asked, time_filters

LIFECYCLE_LIST = (
    "state",
    "queue",
    "priority",
    "held_by",
    "dequeued_time",
    "due",
    "attempts",
    "last_error",
    "created_at",
)
# Only of claimed jobs: of all others the list says what they have, so that all columns are seen.
OF_CLAIMED = {"held_by", "dequeued_time"}
# What stands where a list of all jobs has the time at which one is due; "" = nothing.
IN_PLACE_OF_DUE = {
    Status.READY: "",
    Status.CLAIMED: "",
    Status.BURIED: "failed_at",
    Status.DONE: "finished_at",
}


def columns_of(names: list[Any], selected: Status | None) -> list[Any]:
    """Those that tell something of jobs in this state; None = in any."""
    hidden = set() if selected is Status.CLAIMED else OF_CLAIMED
    due = "due" if selected is None else IN_PLACE_OF_DUE.get(selected, "due")
    shown = [due if name == "due" else name for name in names if name not in hidden]
    return [name for name in dict.fromkeys(shown) if name]


def with_needed(needed: Sequence[Any], filters: Sequence[Any]) -> list[Any]:
    """A project's own filters, and in front of them those that the tabs and links of pages use,
    where none of its own has their parameter."""
    named = [one[0] if isinstance(one, tuple | list) else one for one in filters]
    taken = {getattr(one, "parameter_name", one) for one in named}
    return [*(one for one in needed if one.parameter_name not in taken), *filters]


class JobAdmin(JobPage, ReadOnlyAdmin):
    """Shows a queue table's jobs, read-only, with the verbs that a person may use."""

    list_display: Any = ("id", *LIFECYCLE_LIST)
    list_filter: ClassVar[Any] = (StateFilter, QueueFilter)
    search_fields: ClassVar[Any] = ("id__exact", "dedup_key__exact")
    search_help_text = gettext_lazy("The number of a job, or a whole dedup key")
    actions: Any = (
        *("kick_selected", "kick_with_selected", "reschedule_selected", "prioritize_selected"),
        *("move_selected", "bury_selected", "release_selected", "cancel_selected"),
        "export_selected",
    )

    @admin.action(description=pgettext_lazy("action", "Retry"), permissions=["retry"])
    def kick_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> Any:
        return act(self, request, queryset, KICK)

    @admin.action(description=gettext_lazy("Retry with..."), permissions=["retry"])
    def kick_with_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> Any:
        return act(self, request, queryset, KICK_WITH)

    @admin.action(description=gettext_lazy("Reschedule..."), permissions=["amend"])
    def reschedule_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> Any:
        return act(self, request, queryset, RESCHEDULE)

    @admin.action(description=gettext_lazy("Prioritize..."), permissions=["amend"])
    def prioritize_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> Any:
        return act(self, request, queryset, PRIORITIZE)

    @admin.action(description=gettext_lazy("Move..."), permissions=["amend"])
    def move_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> Any:
        return act(self, request, queryset, MOVE)

    @admin.action(description=pgettext_lazy("action", "Bury"), permissions=["bury"])
    def bury_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> Any:
        return act(self, request, queryset, BURY)

    @admin.action(description=pgettext_lazy("action", "Release"), permissions=["release"])
    def release_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> Any:
        return act(self, request, queryset, RELEASE)

    @admin.action(description=pgettext_lazy("action", "Cancel"), permissions=["cancel"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> Any:
        return act(self, request, queryset, CANCEL)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        selected = tabs.selected_state(request)
        names = columns_of(super().get_list_display(request), selected)
        is_shown = self.model.takes_keys and self.has_inspect_permission(request)
        return [*names, *columns(self, ["concurrency_key"])] if is_shown else names

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        by_time = time_filters(request, tabs.selected_state(request))
        given = with_needed(JobAdmin.list_filter, super().get_list_filter(request))
        filters = [*given, FailureFilter, RetryingFilter, *by_time]
        return [*filters, KeyFilter] if self.model.takes_keys else filters

    def get_search_fields(self, request: HttpRequest) -> list[Any]:
        names = list(super().get_search_fields(request))
        has_keys = self.model.takes_keys and self.may_find_by(request, "concurrency_key")
        return [*names, "concurrency_key__exact"] if has_keys else names

    def get_ordering(self, request: HttpRequest) -> Any:
        """That of the index: of ready jobs the order in which they are claimed, of claimed and
        delayed ones that in which they move by themselves; of failed ones, and of those of one
        failure, the newest first."""
        selected = tabs.selected_state(request)
        if request.GET.get(FailureFilter.parameter_name):
            is_first = selected in {None, Status.BURIED}
            return (BY_FAILURE if is_first else BY_KEY).columns(backwards=False)
        order = ORDERS.get(selected) if selected is not None else None
        return order.columns(backwards=False) if order else super().get_ordering(request)

    def count_states(
        self, changelist: Any, selected: Status | None, rows: QuerySet[Any]
    ) -> tabs.Counts:
        if is_of_failure(changelist):
            return tabs.count_failed(rows)
        return super().count_states(changelist, selected, rows)

    def _list(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        response = super()._list(request, *args, **kwargs)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context and tabs.selected_state(request) == Status.DELAYED:
            context["dbqueue_notes"] += self._parked(request, context["cl"])
        return response

    def _parked(self, request: HttpRequest, changelist: Any) -> list[search.Note]:
        """Elsewhere they count as delayed, but they have no time by which they could be listed."""
        rows = tabs.rows_of_all_states(changelist, request)
        if not (self.model.takes_keys and keyset_of_parked(rows).page(1).rows):
            return []
        others = dict.fromkeys((StateFilter.parameter_name, *NOT_FILTERS))
        url = changelist.get_query_string(
            {**others, str(KeyFilter.parameter_name): KeyFilter.WAITS}
        )
        return [search.Note(_("See also"), url, _("waiting for their key"))]

    def above_list(
        self, changelist: Any, selected: Status | None, rows: QuerySet[Any]
    ) -> dict[str, Any]:
        context = super().above_list(changelist, selected, rows)
        if selected == Status.DELAYED and not is_of_failure(changelist):
            context["dbqueue_schedule"] = schedule(rows, changelist.window_ends)
        return context


class ArchivedJobAdmin(JobPage, ReadOnlyAdmin):
    """Shows archived jobs."""

    list_filter: ClassVar[Any] = (StateFilter,)
    list_display: Any = ("id", *columns_of([*LIFECYCLE_LIST], Status.DONE))
    search_fields: ClassVar[Any] = ("id__exact",)
    search_help_text = gettext_lazy("The number of a job")
    actions: Any = ("export_selected",)
    has_states = False

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        given = with_needed(ArchivedJobAdmin.list_filter, super().get_list_filter(request))
        return [*given, EndedFilter, CreatedFilter]

    def get_ordering(self, request: HttpRequest) -> Any:
        """That of the index where it is asked for a time that the index has."""
        if is_asked(request, EndedFilter):
            return BY_END.columns(backwards=False)
        return super().get_ordering(request)

    def count_states(
        self, changelist: Any, selected: Status | None, rows: QuerySet[Any]
    ) -> tabs.Counts:
        return tabs.count_newest(rows)
