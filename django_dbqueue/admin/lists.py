"""Lists that stay fast however long the table is."""

import json
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import (
    CharField,
    Field,
    IntegerField,
    JSONField,
    Model,
    QuerySet,
    TextField,
    URLField,
)
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..lifecycle.table import table_of
from ..models import Job
from ..monitor.report import known_queues
from ..operate.keyset import COUNTED_ROWS_MAX
from ..operate.orders import in_state, is_in_state
from ..states import Status
from .arguments import LIFECYCLE
from .databases import alias_of
from .masking import MASK, masked

QUEUES_MAX = 100
NEWEST_ROWS = 1000  # in which queues are looked for
# Columns that may hold JSON, with secrets in it.
TEXTS = (CharField, TextField, JSONField)
WHOLE = frozenset({"exact", "in", "isnull"})  # lookups that compare whole values
# What is no error, but what its own code, or a person, wanted.
ON_PURPOSE = {
    "Bury": gettext_lazy("buried on purpose"),
    "Retry": gettext_lazy("to be retried on purpose"),
}

if TYPE_CHECKING:  # at run time it takes no parameters
    PaginatorBase = Paginator[Any]
else:
    PaginatorBase = Paginator


class CappedPaginator(PaginatorBase):
    """Counts and shows the first 1,000 rows: counting more would read the whole table."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:COUNTED_ROWS_MAX].count())


class StateFilter(admin.SimpleListFilter):
    """The five states, named by ``state_words`` of the ModelAdmin."""

    title = gettext_lazy("state")
    parameter_name = "state"
    # The tabs above the list are this filter.
    template = "dbqueue/no_filter.html"

    def __init__(self, request: HttpRequest, params: Any, model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self.has_states = model_admin.has_states

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        labels: dict[Status, Any] = model_admin.state_words
        return [(str(status.value), labels[status]) for status in Status]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in {key for key, _ in self.lookup_choices}:
            return queryset
        status = int(str(self.value()))
        return in_state(queryset, status) if self.has_states else queryset.filter(status=status)


class QueueFilter(admin.SimpleListFilter):
    """The names of the queues, found without reading the table; at most 100."""

    title = gettext_lazy("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [(name, name) for name in queues_of(request, model_admin.model)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(queue=self.value()) if self.value() else queryset


class FailureFilter(admin.SimpleListFilter):
    """The jobs with one failure, as the page of failures links to them."""

    title = gettext_lazy("failure")
    parameter_name = "failure"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(self.value() or "", self.value() or "")] if self.value() else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(failure=self.value()) if self.value() else queryset


class RetryingFilter(admin.SimpleListFilter):
    """Of the jobs with one failure those that are tried again, whichever state they are in by now:
    what the page of failures counts so."""

    title = gettext_lazy("state")
    parameter_name = "retrying"
    asked: ClassVar = {parameter_name: "1"}

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        of_failure = request.GET.get(FailureFilter.parameter_name)
        return [("1", _("tried again"))] if of_failure and self.value() else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(failed_at__isnull=True) if self.value() == "1" else queryset


def is_of_failure(changelist: Any) -> bool:
    """Whether a list shows the jobs with one failure."""
    return any(isinstance(spec, FailureFilter) for spec in changelist.filter_specs)


class KeyFilter(admin.SimpleListFilter):
    """What waits for its concurrency key, and for no time."""

    title = gettext_lazy("concurrency key")
    parameter_name = "key"
    WAITS = "waits"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [(self.WAITS, _("waiting for their key"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() != self.WAITS:
            return queryset
        parked = {"concurrency_key__isnull": False, "retry_at__isnull": True}
        return queryset.filter(is_in_state(Status.DELAYED), **parked)


def is_parked_asked(request: HttpRequest, model: type[Any]) -> bool:
    """Whether a list is of what waits for its key, in no tab of a state."""
    state, key = (request.GET.get(one.parameter_name) for one in (StateFilter, KeyFilter))
    takes_keys = getattr(model, "takes_keys", False)  # an archive does not say
    return bool(takes_keys and not state and key == KeyFilter.WAITS)


def queues_of(request: HttpRequest, model: type[Model]) -> list[str]:
    """The names of a table's queues, looked for once, as far as they are known without reading all
    of it; at most 100."""
    known: dict[type[Model], list[str]] = vars(request).setdefault("dbqueue_queues", {})
    if model not in known:
        alias = alias_of(request, model)
        newest = model._base_manager.using(alias).order_by("-pk")[:NEWEST_ROWS]
        names = set(newest.values_list("queue", flat=True))
        if issubclass(model, Job):
            names |= {*known_queues(table_of(model, alias))}
        known[model] = sorted(names, key=str)[:QUEUES_MAX]
    return known[model]


def without_error_texts(names: Iterable[Any], of_errors: Collection[str]) -> list[Any]:
    """The columns, but in place of the errors' texts the class of the newest error."""
    found = [error_class if name in of_errors else name for name in names]
    return list(dict.fromkeys(found))


@admin.display(description=gettext_lazy("last error"))
def error_class(job: Any) -> str:
    if not job.errors:
        return ""
    try:
        name = job.errors[-1]["exception"]
    except (LookupError, TypeError):
        name = None
    if name in ON_PURPOSE:
        return str(ON_PURPOSE[name])
    # It may have been edited by hand.
    return name if isinstance(name, str) else _("an error")


def columns(model_admin: Any, names: Iterable[Any]) -> list[Any]:
    """The columns of these names, numbers as they are stored, and secrets masked."""
    fields: dict[Any, Any] = {}
    for field in model_admin.opts.concrete_fields:
        fields |= dict.fromkeys((field.name, field.attname), field)
    return [_column_of(model_admin, fields[one], one) if one in fields else one for one in names]


def _column_of(model_admin: Any, field: "Field[Any, Any]", name: str) -> Any:
    if model_admin.is_masked(field.name) and not field.primary_key:
        return column(field, hidden)
    if field.name != name:
        return name  # the key of a row elsewhere, which is not to be fetched
    if field.choices:
        return field.name
    if isinstance(field, IntegerField):
        return column(field, stored)
    is_plain = field.name in LIFECYCLE or isinstance(field, URLField)
    if is_plain or not isinstance(field, TEXTS):
        return field.name
    empty = str(model_admin.get_empty_value_display())
    return column(field, without_secrets(tuple(model_admin.masked), empty))


def hidden(_row: Model, _field: "Field[Any, Any]") -> str:
    return MASK


@cache
def without_secrets(
    more: tuple[str, ...], empty: str
) -> "Callable[[Model, Field[Any, Any]], object]":
    """The value of a column that may hold JSON; ``more`` adds names of what is sensitive;
    ``empty`` is shown where there is nothing."""

    def value_of(row: Model, field: "Field[Any, Any]") -> object:
        value = masked(stored(row, field), more)
        if value in field.empty_values:
            return empty
        is_json = isinstance(value, dict | list)
        return json.dumps(value, ensure_ascii=False, default=str) if is_json else value

    return value_of


def looks_within_json(model: type[Model], lookup: str) -> bool:
    """Whether it compares parts of what a column of JSON holds, or more and less: what is masked
    in it would be told letter by letter. Of errors a job's page shows all words as they are."""
    name, *parts = lookup.split("__")
    for field in model._meta.concrete_fields:
        if holds_json(field) and field.name == name != "errors":
            return not WHOLE.issuperset({*field.get_lookups()} & {*parts})
    return False


def lists_json(model: type[Model], spec: Any) -> bool:
    """Whether an entry of ``list_filter`` would list all that a column of JSON holds."""
    return any(holds_json(field) and field.name == spec for field in model._meta.concrete_fields)


def holds_json(field: "Field[Any, Any]") -> bool:
    return bool(getattr(field, "holds_json", isinstance(field, JSONField)))


def stored(row: Model, field: "Field[Any, Any]") -> object:
    return getattr(row, field.attname)


@cache
def column(
    field: "Field[Any, Any]", value_of: "Callable[[Model, Field[Any, Any]], object]"
) -> Callable[[Model], object]:
    """A field past Django's formatter, which fails at some texts: SQLite keeps in any column what
    was edited into it by hand."""

    @admin.display(description=field.verbose_name, ordering=field.name)
    def value(row: Model) -> object:
        return value_of(row, field)

    value.__name__ = field.name
    return value
