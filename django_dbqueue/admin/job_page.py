"""The page of one job: why it waits, what may be done, what has happened, what it holds."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.admin.utils import unquote
from django.db.models import DateTimeField, Field, IntegerField, Model
from django.http import HttpRequest, HttpResponseRedirect
from django.utils import timezone
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from ..diagnose import Explanation, UnknownJob, explain, explain_archived
from ..lifecycle.table import table_of
from ..models import Job, Worker
from ..monitor.worker_list import list_workers, without_names
from ..states import Status
from ..texts.wording import state_word
from .arguments import Argument, arguments, own_fields
from .base import INSPECTED, ReadOnlyAdmin
from .confirmation import PAGE_FIELD
from .databases import alias_of, others, query_of
from .formatting import time_tag
from .lists import column, stored
from .pages import above_row, auto_refresh, list_url, row_url
from .permissions import may
from .search import as_key
from .timeline import Event, timeline
from .words import STATES, Word, of_actions, of_states
from .words import others as other_words

if TYPE_CHECKING:  # at run time it is mixed into it
    Base = ReadOnlyAdmin
else:
    Base = object

SHOWN = (DateTimeField, IntegerField)
UNFINISHED = (Status.READY, Status.CLAIMED, Status.DELAYED)
# By action, what its button says, and the states in which it makes sense.
Buttons = dict[str, tuple[Any, Collection[Status]]]
# Those that ask for a value.
VALUED: Buttons = {
    "kick_with_selected": (gettext_lazy("Retry with..."), (Status.BURIED,)),
    "reschedule_selected": (gettext_lazy("Reschedule..."), (Status.READY, Status.DELAYED)),
    "prioritize_selected": (
        gettext_lazy("Prioritize..."),
        (Status.READY, Status.DELAYED, Status.BURIED),
    ),
    "move_selected": (gettext_lazy("Move..."), (Status.READY, Status.DELAYED, Status.BURIED)),
}


@dataclass
class Page:
    """What the template shows next to the columns."""

    job: Any
    word: str  # its state
    explanation: Explanation
    events: list[Event]
    buttons: list[tuple[str, Any]]
    list_url: str
    may_inspect: bool
    permission: str
    arguments: list[Argument]
    elsewhere: list[tuple[str, str]]
    hint: str = ""  # what its state means

    @property
    def key(self) -> str:
        return str(getattr(self.job, "idempotency_key", ""))


class JobPage(Base):
    """Mixed into the admin of a queue table, and of its archive."""

    change_form_template = "dbqueue/change_form.html"
    buttons: ClassVar[Buttons] = {
        "kick_selected": (pgettext_lazy("action", "Retry"), (Status.DELAYED, Status.BURIED)),
        **VALUED,
        "bury_selected": (pgettext_lazy("action", "Bury"), UNFINISHED),
        "release_selected": (pgettext_lazy("action", "Release"), (Status.CLAIMED,)),
        "cancel_selected": (pgettext_lazy("action", "Cancel"), tuple(Status)),
    }

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        job = kwargs.get("obj")
        if job is not None:
            context["dbqueue_job"] = self.page_of(request, job)
            context["dbqueue_words"] = self.words_of(request, job)
            context |= above_row(self, request)
            context |= self.more_context(request, job)
            if isinstance(job, Job) and job.status in UNFINISHED:
                context |= auto_refresh(request)
        return super().render_change_form(request, context, *args, **kwargs)

    def history_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        response = super().history_view(request, *args, **kwargs)
        context = getattr(response, "context_data", None) or {}
        job, above = context.get("object"), above_row(self, request)
        if job is not None and above:
            url = row_url(self.admin_site, request, self.model, job.pk, job._state.db)
            above["crumbs"].append((Truncator(job).words(18), url))
            context |= above
            response.template_name = "dbqueue/object_history.html"
        return response

    def page_of(self, request: HttpRequest, job: Any) -> Page:
        may_inspect = self.has_inspect_permission(request)
        hidden = [
            one for one in ("concurrency_key", "errors") if not self.may_find_by(request, one)
        ]
        explanation = self.explanation(job, hidden)
        may_name_workers = may(request, Worker, "view")
        if not may_name_workers:
            explanation = _without_workers(explanation, job._state.db or "default")
        now, age = timezone.now(), explanation.until.get("created_at")
        if age is not None and isinstance(job.created_at, datetime):
            with suppress(OverflowError):  # a date edited by hand
                now = job.created_at - timedelta(seconds=age)  # by the database's clock
        return Page(
            job=job,
            word=self.state_word(job, explanation),
            explanation=explanation,
            events=timeline(job, may_inspect, now, may_name_workers),
            buttons=self.buttons_for(request, job),
            list_url=list_url(
                self.admin_site, request, self.model, **query_of(self.model, job._state.db)
            ),
            may_inspect=may_inspect,
            permission=f"{self.opts.app_label}.inspect_{self.opts.model_name}",
            arguments=self.arguments(job, may_inspect),
            elsewhere=list(self._elsewhere(request, job.pk)),
            hint=str(STATES.get(job.status, "")),
        )

    def words_of(self, request: HttpRequest, job: Any) -> list[Word]:
        """Its state, and what its buttons do."""
        states = {s: label for s, label in self.state_words.items() if s == job.status}
        more = other_words(("attempt", "claim", "dedup key", "suspect", "time to run", "twin"))
        return [*of_states(states), *more, *of_actions(self.buttons_for(request, job))]

    def more_context(self, request: HttpRequest, job: Any) -> dict[str, Any]:
        """What a subclass's own template shows in addition."""
        return {}

    def arguments(self, job: Any, may_inspect: bool) -> list[Argument]:
        """Its own columns and its dedup key; without the permission, those that are open to all."""
        shown = None if may_inspect else self.open_columns
        return list(arguments(job, self.masked, shown))

    def explanation(self, job: Any, hidden: Collection[str] = ()) -> Explanation:
        """``hidden``: the columns that hold what the reader may not see."""
        alias = job._state.db or "default"
        try:
            if isinstance(job, Job):
                return explain(table_of(type(job), alias), job.pk, hidden)
            for model in others(type(job)):
                return explain_archived(table_of(model, alias), job.pk, hidden)
        except UnknownJob as error:  # it was archived or deleted a moment ago
            return Explanation("gone", [str(error)])
        return Explanation(job.state, [_("It has ended, and is kept in the archive.")])

    def state_word(self, job: Any, explanation: Explanation) -> str:
        return state_word(explanation.state)

    def buttons_for(self, request: HttpRequest, job: Any) -> list[tuple[str, Any]]:
        allowed = self.get_actions(request)
        return [
            (action, label)
            for action, (label, states) in self.buttons.items()
            if action in allowed and job.status in states
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields: dict[Any, Any] = {one.name: one for one in self.opts.concrete_fields}
        names = super().get_readonly_fields(request, obj)
        found = [(name, fields.get(getattr(name, "__name__", name))) for name in names]
        return [
            column(one, _shown) if isinstance(one, SHOWN) and not self.is_masked(one.name) else name
            for name, one in found
        ]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Without what tells what the job holds, which has parts of the page to itself: of those
        in ``fields`` only columns that are open to all."""
        own = own_fields(self.model)
        closed = [one for one in own if not (self.fields and one.name in self.open_columns)]
        inspected = INSPECTED | {name for one in closed for name in (one.name, one.attname)}
        names = self.get_fields(request, obj)
        seen = [name for name in names if getattr(name, "__name__", name) not in inspected]
        return [(None, {"fields": seen})]

    def response_action(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Back to the page that had the button, as long as there is one."""
        response = super().response_action(request, *args, **kwargs)
        key = request.POST.get(PAGE_FIELD, "")
        is_done = isinstance(response, HttpResponseRedirect)
        if not (key and is_done) or self.get_object(request, key) is None:
            return response
        alias = alias_of(request, self.model)
        return HttpResponseRedirect(row_url(self.admin_site, request, self.model, key, alias))

    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: Any, object_id: str
    ) -> Any:
        """To the archive's page, where the job has gone there."""
        for _name, url in self._elsewhere(request, unquote(object_id)):
            return HttpResponseRedirect(url)
        return super()._get_obj_does_not_exist_redirect(request, opts, object_id)  # type: ignore[misc]

    def _elsewhere(self, request: HttpRequest, key: Any) -> Iterator[tuple[str, str]]:
        """The same job in the archive, or in its table."""
        for model in others(self.model):
            alias = alias_of(request, model)
            url = row_url(self.admin_site, request, model, key, alias)
            rows = model._base_manager.using(alias)
            if url and as_key(model._meta.pk, str(key)) and rows.filter(pk=key).exists():
                yield f"{model._meta.verbose_name} {key}", url


def _without_workers(found: Explanation, alias: str) -> Explanation:
    workers = list_workers(alias)
    sentences = [without_names(one, workers) for one in found.sentences]
    return replace(found, sentences=sentences)


def _shown(row: Model, field: "Field[Any, Any]") -> object:
    """An instant as people and programs read it, and a number as it is stored."""
    found = stored(row, field)
    if field.choices:
        found = state_word(getattr(row, f"get_{field.name}_display")())
    return "-" if found is None else time_tag(found)
