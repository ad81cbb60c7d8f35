"""What the lists of all queue tables and archives share."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, ShowFacets
from django.contrib.admin.utils import display_for_value
from django.contrib.admin.views.main import SEARCH_VAR
from django.db import connections
from django.db.models import QuerySet
from django.db.utils import Error
from django.http import HttpRequest, HttpResponseRedirect, QueryDict
from django.template.response import SimpleTemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..dialects import dialect_of
from ..exceptions import QueueFull
from ..models.columns import JobColumns
from ..monitor.activity import without_filters
from ..states import Status
from ..texts.wording import STATES, state_word
from . import confirmation, search, tabs, words
from .changelist import JobList
from .databases import DATABASE, DatabaseFilter, alias_of, aliases, query_of
from .export import export
from .lists import CappedPaginator, columns, lists_json, looks_within_json, without_error_texts
from .masking import is_sensitive
from .pages import auto_refresh, page_url
from .permissions import JobPermissions, ViewOnly

if TYPE_CHECKING:  # at run time it takes no parameters
    Base = ModelAdmin[Any]
else:
    Base = ModelAdmin

# Columns that tell what a job holds: for those with the permission to inspect.
INSPECTED = {"errors", "dedup_key"}


class ReadOnlyAdmin(JobPermissions, ViewOnly, Base):
    """A list and a page to look at; what changes a job is an action."""

    change_list_template = "dbqueue/change_list.html"
    action_form = confirmation.JobActionForm
    show_full_result_count = False
    # They would count whole tables; the tabs do not.
    show_facets = ShowFacets.NEVER
    list_per_page = 50
    paginator = CappedPaginator
    # Any other order than the indexes' would sort the whole table.
    sortable_by: ClassVar[Any] = ()
    state_words: ClassVar[dict[Status, Any]] = {status: STATES[status.label] for status in Status}
    # By verb, what an action is called here, where it has another name.
    action_titles: ClassVar[dict[str, Any]] = {}
    ordering = ("-id",)
    # Whether there are indexes over the states.
    has_states: ClassVar[bool] = True
    # Columns that are shown, searched and exported without the permission to inspect.
    open_columns: ClassVar[frozenset[str]] = frozenset(
        {field.name for field in JobColumns._meta.get_fields()} - INSPECTED
    )
    # Of the list, those that tell what errors say.
    error_columns: ClassVar[frozenset[str]] = frozenset({"last_error", "errors"})
    not_exported: ClassVar[frozenset[str]] = frozenset()
    # More names, or parts of names, of columns and keys whose values are secrets.
    masked: ClassVar[Collection[str]] = ()

    class Media:
        css = {"all": ["dbqueue/admin.css", "dbqueue/page.css", "dbqueue/search.css"]}
        js = ("dbqueue/live.js", "dbqueue/keys.js")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """On pages of its own nothing is deleted, but cancelled; other models' pages ask what may
        go along with a row of theirs."""
        match, own = request.resolver_match, f"{self.opts.app_label}_{self.opts.model_name}_"
        is_own = match is None or (match.url_name or "").startswith(own)
        return not is_own and super().has_delete_permission(request, obj)

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        named = {one[0] if isinstance(one, tuple | list) else one for one in self.list_filter}
        is_named = lookup.partition("__")[0] in named and not self.names_secret(lookup)
        may_ask = is_named or self.may_find_by(request, lookup)
        may_ask = may_ask and not looks_within_json(self.model, lookup)
        return bool(may_ask and super().lookup_allowed(lookup, value, request))

    def may_find_by(self, request: HttpRequest, lookup: str) -> bool:
        """Nobody finds by what they may not see: ?text__startswith= would tell it letter by letter.
        What is masked nobody sees."""
        asked = lookup.lstrip("^=@").partition("__")[0]
        for field in self.opts.concrete_fields:
            if asked in {field.name, field.attname} and not field.primary_key:
                is_seen = field.name in self.open_columns or self.has_inspect_permission(request)
                return is_seen and not self.names_secret(lookup)
        return True

    def names_secret(self, lookup: str) -> bool:
        """Whether it names a column that is masked, or what is masked within a column."""
        column, *keys = lookup.lstrip("^=@").split("__")
        others = [one for one in self.opts.concrete_fields if not one.primary_key]
        own = {name for one in others for name in (one.name, one.attname)}
        return column in own and any(map(self.is_masked, (column, *keys)))

    def is_masked(self, name: str) -> bool:
        return is_sensitive(name, self.masked)

    def get_search_fields(self, request: HttpRequest) -> list[Any]:
        names = super().get_search_fields(request)
        return [name for name in names if self.may_find_by(request, name)]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return rows.using(alias_of(request, self.model)) if self.is_spread() else rows

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        filters = [
            one
            for one in super().get_list_filter(request)
            if not self.names_secret(str(one[0] if isinstance(one, tuple | list) else one))
            and not lists_json(self.model, one)
        ]
        return [*filters, DatabaseFilter] if self.is_spread() else filters

    def get_preserved_filters(self, request: HttpRequest) -> str:
        """With the database of the page, so that its links stay with its row."""
        kept = super().get_preserved_filters(request)
        named = query_of(self.model, alias_of(request, self.model))
        if not named:
            return kept
        filters = QueryDict(QueryDict(kept).get("_changelist_filters", ""), mutable=True)
        filters[DATABASE] = named[DATABASE]
        return urlencode({"_changelist_filters": filters.urlencode()})

    def is_spread(self) -> bool:
        """Whether there are rows on several databases."""
        return len(aliases(self.model)) > 1

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[JobList]:
        return JobList

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        # The page that asks before an action says what the list is filtered by.
        known: dict[Any, Any] = vars(request).setdefault("dbqueue_lists", {})
        if self not in known:
            known[self] = super().get_changelist_instance(request)
        return known[self]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        names = search.columns_searched(self.model, list(self.get_search_fields(request)))
        term = search_term.strip()
        if names is None or not term:
            return super().get_search_results(request, queryset, search_term)
        keys, common = search.keys_found(queryset, names, term)
        if common:
            return search.row_by_row(queryset, keys, common), False
        return self.found(request, queryset, term, keys), False

    def found(
        self, request: HttpRequest, rows: QuerySet[Any], term: str, keys: set[Any]
    ) -> QuerySet[Any]:
        """What a search shows; ``keys`` are those found by ``search_fields``."""
        return rows.filter(pk__in=sorted(keys))

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.method == "POST":
            confirmation.normalize_selection(request, self.model)
        try:
            return self._leniently(request, self._list, *args, **kwargs)
        except Error as error:
            if not self.is_spread():
                raise
            text = _("Database %(name)s cannot be asked: %(why)s")
            text %= {"name": repr(alias_of(request, self.model)), "why": error}
            self.message_user(request, text, messages.ERROR)
            return HttpResponseRedirect(page_url(self.admin_site, "dbqueue_queue_changelist"))

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._leniently(request, super().changeform_view, *args, **kwargs)
        except QueueFull as full:  # where a project's own page adds jobs
            self.message_user(request, str(full), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def history_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """What lists were filtered by is for those who may inspect, as it is on all other pages."""
        response: Any = super().history_view(request, *args, **kwargs)
        context = getattr(response, "context_data", None) or {}
        if "action_list" in context and not self.has_inspect_permission(request):
            page = context["action_list"]
            page.object_list = [without_filters(entry) for entry in page.object_list]
        return response

    def _list(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        response: Any = super().changelist_view(request, *args, **kwargs)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context:
            rows = tabs.rows_of_all_states(context["cl"], request)
            context |= self.above_list(context["cl"], tabs.selected_state(request), rows)
            context |= auto_refresh(request)
            context["dbqueue_words"] = self.words_of_list(request)
            query_string = context["cl"].get_query_string
            context["dbqueue_notes"] = search.leading(
                request, lambda query: query_string(query | {SEARCH_VAR: None})
            )
        return response

    def words_of_list(self, request: HttpRequest) -> list[words.Word]:
        """Those of a list, and of its actions."""
        of_list = words.others(words.OF_LISTS)
        of_actions = words.of_actions(self.get_action_choices(request, []))
        return [*words.of_states(self.state_words), *of_list, *of_actions]

    def above_list(
        self, changelist: Any, selected: Status | None, rows: QuerySet[Any]
    ) -> dict[str, Any]:
        """What the template shows above the list; ``rows`` are those of all states."""
        counts = self.count_states(changelist, selected, rows)
        return {"dbqueue_tabs": tabs.tabs(changelist, selected, self.state_words, counts)}

    def count_states(
        self, changelist: Any, selected: Status | None, rows: QuerySet[Any]
    ) -> tabs.Counts:
        known = {selected: changelist.counted} if changelist.counted else {}
        counts = tabs.as_counted(rows, tabs.count_each(rows, known, changelist.window_ends))
        if changelist.counted:
            changelist.counted = counts[selected]
            changelist.result_count = changelist.counted.number
        return counts

    def _leniently(
        self, request: HttpRequest, view: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """A row edited by hand into what is no text hides none of the others."""
        dialect = dialect_of(connections[self.get_queryset(request).db])
        if dialect.has_typed_columns:
            return view(request, *args, **kwargs)
        with dialect.decode_leniently():
            response = view(request, *args, **kwargs)
            # The rows are read while the page is made.
            is_lazy = isinstance(response, SimpleTemplateResponse)
            return response.render() if is_lazy else response

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        names = super().get_list_display(request)
        if not self.has_inspect_permission(request):
            names = without_error_texts(names, self.error_columns)
        return columns(self, names)

    def get_list_display_links(self, request: HttpRequest, list_display: Any) -> Any:
        links = super().get_list_display_links(request, list_display)
        if links is None:
            return None
        # A column may be shown by a function of its name.
        return [one for one in list_display if {one, getattr(one, "__name__", one)} & {*links}]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        names: Any = self.fields or [field.name for field in self.opts.concrete_fields]
        return columns(self, names)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return self.get_readonly_fields(request, obj)

    def describe(self, job: Any) -> str:
        """Its name on the page that asks before an action; all who may see the list read it."""
        return str(job)

    @admin.display(description=gettext_lazy("state"))
    def state(self, job: Any) -> str:
        return state_word(job.state)

    @admin.display(description=gettext_lazy("last error"))
    def last_error(self, job: Any) -> str:
        return str(job.last_error)

    @admin.action(description=gettext_lazy("Export as CSV"), permissions=["export"])
    def export_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return export(self, request, queryset)

    @admin.display(description=gettext_lazy("retry at"), ordering="retry_at")
    def due(self, job: Any) -> str:
        """When a delayed job is due; in other states the column says when a claim ends, say."""
        instant = job.retry_at if job.status == Status.DELAYED else None
        return str(display_for_value(instant, self.get_empty_value_display()))

    @admin.display(description=gettext_lazy("owner"))
    def held_by(self, job: Any) -> SafeString | None:
        """The owner, shortened for lists: a whole one is as wide as three other columns."""
        if not job.owner:
            return None
        worker, dot, claim = job.owner.partition(".")
        short = f"{worker[:8]}{dot}{claim}"
        return format_html('<span title="{}" class="dbqueue-owner">{}</span>', job.owner, short)
