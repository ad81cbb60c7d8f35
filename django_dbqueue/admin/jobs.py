"""The admin of a queue table: ``class ThumbnailAdmin(JobAdmin)`` and nothing else."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, ShowFacets
from django.contrib.admin.utils import display_for_value
from django.db import connections
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import SimpleTemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ..dialects import dialect_of
from ..lifecycle.hand import Changed
from ..models import Job
from ..states import Status
from . import by_hand, tabs
from .lists import CappedPaginator, QueueFilter, StateFilter, columns
from .page import JobPage
from .schedule import schedule

if TYPE_CHECKING:  # at run time it takes no parameters
    Base = ModelAdmin[Any]
else:
    Base = ModelAdmin

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


class ReadOnlyAdmin(Base):
    """A list and a page to look at; what changes a job is an action."""

    change_list_template = "dbqueue/change_list.html"
    actions_on_bottom = True
    show_full_result_count = False
    # They would count whole tables; the tabs do not.
    show_facets = ShowFacets.NEVER
    list_per_page = 50
    paginator = CappedPaginator
    state_words: ClassVar[dict[Status, str]] = {status: status.label for status in Status}
    ordering = ("-id",)

    class Media:
        css = {"all": ["dbqueue/admin.css", "dbqueue/page.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self._whatever_is_there(request, self._list, *args, **kwargs)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self._whatever_is_there(request, super().changeform_view, *args, **kwargs)

    def _list(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        response: Any = super().changelist_view(request, *args, **kwargs)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context:
            rows = tabs.rows_of_all_states(context["cl"], request)
            context |= self.above_list(context["cl"], tabs.selected_state(request), rows)
        return response

    def above_list(
        self, changelist: Any, selected: Status | None, rows: QuerySet[Any]
    ) -> dict[str, Any]:
        """What the template shows above the list; ``rows`` are those of all states."""
        counts = self.count_states(rows)
        return {"dbqueue_tabs": tabs.tabs(changelist, selected, self.state_words, counts)}

    def count_states(self, rows: QuerySet[Any]) -> tabs.Counts:
        return tabs.count_each(rows)

    def _whatever_is_there(
        self, request: HttpRequest, view: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """A row edited by hand into what is no text hides none beside it."""
        dialect = dialect_of(connections[self.get_queryset(request).db])
        if dialect.has_typed_columns:
            return view(request, *args, **kwargs)
        with dialect.lenient():
            response = view(request, *args, **kwargs)
            # The rows are read while the page is made.
            is_lazy = isinstance(response, SimpleTemplateResponse)
            return response.render() if is_lazy else response

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return columns(self.model, super().get_list_display(request))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        names: Any = self.fields or [field.name for field in self.opts.concrete_fields]
        return columns(self.model, names)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return self.get_readonly_fields(request, obj)

    @admin.display(description="retry at", ordering="retry_at")
    def due(self, job: Any) -> str:
        """When a delayed job is due; in other states the column says when a claim ends, say."""
        instant = job.retry_at if job.status == Status.DELAYED else None
        return str(display_for_value(instant, self.get_empty_value_display()))

    @admin.display(description="owner")
    def held_by(self, job: Any) -> SafeString | None:
        """The owner, shortened for lists: a whole one takes the place of three other columns."""
        if not job.owner:
            return None
        worker, dot, claim = job.owner.partition(".")
        short = f"{worker[:8]}{dot}{claim}"
        return format_html('<span title="{}" class="dbqueue-owner">{}</span>', job.owner, short)


class JobAdmin(JobPage, ReadOnlyAdmin):
    """Shows a queue table's jobs, read-only, with the verbs that a person may use."""

    list_display: Any = ("id", *LIFECYCLE_LIST)
    list_filter: ClassVar[Any] = (StateFilter, QueueFilter)
    actions: Any = ("kick_selected", "bury_selected", "release_selected")

    @admin.action(description="Put back to work (kick)", permissions=["change"])
    def kick_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._by_hand(request, queryset, "kick")

    @admin.action(description="Park for a person (bury)", permissions=["change"])
    def bury_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._by_hand(request, queryset, "bury")

    @admin.action(description="Take away from the worker (release)", permissions=["change"])
    def release_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        self._by_hand(request, queryset, "release")

    def get_ordering(self, request: HttpRequest) -> Any:
        # Delayed jobs in the order in which they come.
        is_delayed = tabs.selected_state(request) == Status.DELAYED
        return ("retry_at", "id") if is_delayed else super().get_ordering(request)

    def above_list(
        self, changelist: Any, selected: Status | None, rows: QuerySet[Any]
    ) -> dict[str, Any]:
        context = super().above_list(changelist, selected, rows)
        if selected == Status.DELAYED:
            context["dbqueue_schedule"] = schedule(rows)
        return context

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # For the list's actions only: a job's own page is for reading.
        return obj is None and super().has_change_permission(request)

    def _by_hand(self, request: HttpRequest, queryset: QuerySet[Any], verb: str) -> None:
        taken = by_hand.taken_by(verb, queryset)
        result: Changed = getattr(queryset, verb)()
        by_hand.log(request, taken, f"{verb}: {result}")
        level = messages.WARNING if result.skipped else messages.SUCCESS
        self.message_user(request, str(result), level)


class ArchivedJobAdmin(JobPage, ReadOnlyAdmin):
    """Shows archived jobs."""

    list_filter: ClassVar[Any] = (StateFilter,)
    list_display: Any = ("id", *LIFECYCLE_LIST, "finished_at")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def count_states(self, rows: QuerySet[Any]) -> tabs.Counts:
        return tabs.count_newest(rows)
