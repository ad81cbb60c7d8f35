"""Filters by time: within the last minutes, the last hour, the last day, or between two moments."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..operate.moments import now_of
from ..states import Status
from . import confirmation, search
from .changelist import NOT_FILTERS
from .lists import StateFilter

SPANS = {
    "5m": (gettext_lazy("last 5 minutes"), timedelta(minutes=5)),
    "1h": (gettext_lazy("last hour"), timedelta(hours=1)),
    "24h": (gettext_lazy("last 24 hours"), timedelta(hours=24)),
}


class NoTime(ValueError):
    """What was asked for is no time; says why."""


@dataclass(frozen=True)
class Moments:
    """From one, until another one, as far as they are given."""

    begin: datetime | None = None
    end: datetime | None = None

    def __str__(self) -> str:
        begin, end = map(_shown, (self.begin, self.end))
        if begin and end:
            return _("from %(begin)s until %(end)s") % {"begin": begin, "end": end}
        return _("since %s") % begin if begin else _("until %s") % end


def _shown(moment: datetime | None) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}" if moment else ""


class TimeFilter(admin.SimpleListFilter):
    """Rows whose ``column`` is within a span. ``state``: the one in which jobs have that time;
    links lead to the list of it."""

    template = "dbqueue/time_filter.html"
    column = ""
    state: Status | None = None

    def __init__(self, request: HttpRequest, params: Any, model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self.names = [f"{self.parameter_name}_from", f"{self.parameter_name}_until"]
        for name in self.names:
            if name in params:
                self.used_parameters[name] = params.pop(name)[-1].strip()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(key, words) for key, (words, _span) in SPANS.items()]

    def expected_parameters(self) -> list[Any]:
        return [self.parameter_name, *self.names]

    @cached_property
    def asked(self) -> Moments:
        """``NoTime`` where it is none."""
        begin, end = (_moment(self.used_parameters.get(name) or "") for name in self.names)
        if begin and end and begin > end:
            raise NoTime(_("It ends before it begins."))
        return Moments(begin, end)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """None at all where nobody can tell which are meant: an action would take too many."""
        try:
            begin, end = self._asked_of(request, queryset.db)
        except NoTime as why:
            asked = ", ".join(str(v) for v in self.used_parameters.values() if v)
            what = _("The filter %(filter)s cannot use %(asked)s. %(why)s")
            named = {"filter": f"“{self.title}”", "asked": f"“{asked[:80]}”", "why": why}
            search.note(request, what % named)
            return queryset.none()
        if begin is not None:
            queryset = queryset.filter(**{f"{self.column}__gte": begin})
        return queryset if end is None else queryset.filter(**{f"{self.column}__lte": end})

    def _asked_of(
        self, request: HttpRequest, alias: str
    ) -> tuple[datetime | None, datetime | None]:
        key = self.value()
        if not key:
            return self.asked.begin, self.asked.end
        if key not in SPANS:
            known = ", ".join(SPANS)
            raise NoTime(_("It knows %s, or two times.") % known)
        if confirmation.names_rows(request):  # they were within it when they were shown
            return None, None
        return _now(request, alias) - SPANS[key][1], None

    def choices(self, changelist: Any) -> Iterator[Any]:
        mine = dict.fromkeys(self.expected_parameters())
        in_state = (
            {StateFilter.parameter_name: str(self.state.value)} if self.state is not None else {}
        )
        asked = {k: v for k, v in changelist.params.items() if k not in {*mine, *NOT_FILTERS}}
        self.hidden = list((asked | in_state).items())
        is_given = any(self.used_parameters.get(name) for name in self.names)
        key = self.value()
        yield _choice(_("any time"), changelist, mine, not key and not is_given)
        for name, words in self.lookup_choices:
            query = mine | in_state | {str(self.parameter_name): name}
            yield _choice(words, changelist, query, key == name)
        if is_given and not key:
            yield _choice(self._told(), changelist, {}, is_selected=True)

    def _told(self) -> str:
        try:
            return str(self.asked)
        except NoTime:
            return _("no time")

    @property
    def fields(self) -> list[tuple[str, str, str]]:
        """The two of the form: label, name, value."""
        values = [self.used_parameters.get(name) or "" for name in self.names]
        return list(zip((_("From"), _("until")), self.names, values, strict=True))

    @property
    def zone(self) -> str:
        return timezone.get_current_timezone_name()


def _now(request: HttpRequest, alias: str) -> datetime:
    """One and the same for the list and all counts of a page."""
    known: dict[str, datetime] = vars(request).setdefault("dbqueue_now", {})
    if alias not in known:
        known[alias] = now_of(alias)
    return known[alias]


def _choice(words: Any, changelist: Any, query: dict[str, Any], is_selected: bool) -> Any:
    url = changelist.get_query_string({**query, **dict.fromkeys(NOT_FILTERS)})
    return {"selected": is_selected, "query_string": url, "display": words}


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        found = found if timezone.is_aware(found) else timezone.make_aware(found)
        timezone.localtime(found)  # as it is shown
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise NoTime(_("A time is written as 2026-01-31T13:45.")) from None


class FailedFilter(TimeFilter):
    title = gettext_lazy("failed")
    parameter_name = "failed"
    column = "failed_at"
    state = Status.BURIED


class EndedFilter(TimeFilter):
    """Of an archive, which has an index of it over all states."""

    title = gettext_lazy("finished")
    parameter_name = "finished"
    column = "finished_at"


class FinishedFilter(EndedFilter):
    state = Status.DONE


class CreatedFilter(TimeFilter):
    title = gettext_lazy("created")
    parameter_name = "created"
    column = "created_at"


OF_STATES = {
    None: (FailedFilter, FinishedFilter, CreatedFilter),
    Status.DONE: (FinishedFilter, CreatedFilter),
    Status.BURIED: (FailedFilter, CreatedFilter),
}


def time_filters(request: HttpRequest, selected: Status | None) -> list[type[TimeFilter]]:
    """Those of times that jobs in a state have, and those that the address names all the same: no
    other filter knows what a form left empty."""
    shown = OF_STATES.get(selected, (CreatedFilter,))
    named = {one for one in OF_STATES[None] if any(name in request.GET for name in _names(one))}
    return [one for one in OF_STATES[None] if one in shown or one in named]


def is_asked(request: HttpRequest, one: type[TimeFilter]) -> bool:
    return any(request.GET.get(name) for name in _names(one))


def _names(one: type[TimeFilter]) -> list[str]:
    name = str(one.parameter_name)
    return [name, f"{name}_from", f"{name}_until"]
