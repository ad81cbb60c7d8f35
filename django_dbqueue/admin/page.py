"""The page of one job: why it waits, what may be done, what has happened, what it holds."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from django.apps import apps
from django.contrib.admin import ModelAdmin
from django.db import router
from django.db.models import Model
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from ..explain import Explanation, UnknownJob, explain
from ..lifecycle.policy import policy_of
from ..lifecycle.table import table_of
from ..models import Job
from ..states import Status
from .arguments import Argument, arguments, own_fields
from .timeline import Event, timeline

if TYPE_CHECKING:  # at run time it takes no parameters
    Base = ModelAdmin[Any]
else:
    Base = object

UNFINISHED = (Status.READY, Status.CLAIMED, Status.DELAYED)
# By action, what its button says, and the states in which it makes sense.
Buttons = dict[str, tuple[str, Collection[Status]]]


@dataclass
class Page:
    """What the template shows beside the columns."""

    pk: Any
    explanation: Explanation
    events: list[Event]
    buttons: list[tuple[str, str]]
    list_url: str
    may_inspect: bool
    permission: str
    arguments: list[Argument] = field(default_factory=list)
    key: str = ""
    elsewhere: list[tuple[str, str]] = field(default_factory=list)


class JobPage(Base):
    """Mixed into the admin of a queue table, and of its archive."""

    change_form_template = "dbqueue/change_form.html"
    buttons: ClassVar[Buttons] = {
        "kick_selected": ("Retry now", (Status.DELAYED, Status.BURIED)),
        "bury_selected": ("Bury", UNFINISHED),
        "release_selected": ("Take from its worker", (Status.CLAIMED,)),
        "cancel_selected": ("Cancel", tuple(Status)),
    }
    # Names, or parts of names, of columns and keys whose values are secrets, besides the usual.
    masked: ClassVar[Collection[str]] = ()

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        job = kwargs.get("obj")
        if job is not None:
            context["dbqueue_job"] = self.page_of(request, job)
            context |= self.more_context(request, job)
        return super().render_change_form(request, context, *args, **kwargs)

    def page_of(self, request: HttpRequest, job: Any) -> Page:
        may_inspect = self.may(request, "inspect")
        return Page(
            pk=job.pk,
            explanation=self.explanation(job),
            events=timeline(job, may_inspect),
            buttons=self.buttons_for(request, job),
            list_url=self._url(self.model, "changelist"),
            may_inspect=may_inspect,
            permission=f"{self.opts.app_label}.inspect_{self.opts.model_name}",
            arguments=self.arguments(job) if may_inspect else [],
            key=getattr(job, "idempotency_key", ""),
            elsewhere=list(self._elsewhere(job)),
        )

    def more_context(self, request: HttpRequest, job: Any) -> dict[str, Any]:
        """What a subclass's own template shows besides."""
        return {}

    def arguments(self, job: Any) -> list[Argument]:
        return list(arguments(job, self.masked))

    def explanation(self, job: Any) -> Explanation:
        if not isinstance(job, Job):
            return Explanation(job.state, ["It has ended, and is kept in the archive."])
        try:
            return explain(table_of(type(job), job._state.db or "default"), job.pk)
        except UnknownJob as error:  # it was archived or deleted a moment ago
            return Explanation("gone", [str(error)])

    def buttons_for(self, request: HttpRequest, job: Any) -> list[tuple[str, str]]:
        allowed = self.get_actions(request)
        return [
            (action, label)
            for action, (label, states) in self.buttons.items()
            if action in allowed and job.status in states
        ]

    def may(self, request: HttpRequest, verb: str) -> bool:
        return request.user.has_perm(f"{self.opts.app_label}.{verb}_{self.opts.model_name}")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Without the job's own columns, which have a part of the page to themselves."""
        own = {one.name for one in own_fields(self.model)} if self.fields is None else set()
        names = [
            name
            for name in self.get_fields(request, obj)
            if getattr(name, "__name__", name) not in own | {"errors"}
        ]
        pairs = [tuple(names[n : n + 2]) for n in range(0, len(names), 2)]
        return [(None, {"fields": pairs})]

    def _elsewhere(self, job: Any) -> Any:
        """The same job in the archive, or in its table."""
        for model in _others(self.model):
            rows = model._base_manager.using(router.db_for_write(model))
            if self.admin_site.is_registered(model) and rows.filter(pk=job.pk).exists():
                name = f"{model._meta.verbose_name} {job.pk}"
                yield name, self._url(model, "change", job.pk)

    def _url(self, model: type[Model], page: str, *args: Any) -> str:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
        try:
            return reverse(name, args=args, current_app=self.admin_site.name)
        except NoReverseMatch:
            return ""


def _others(model: type[Model]) -> list[type[Model]]:
    """The archive of a queue table, or the queue table of an archive."""
    if issubclass(model, Job):
        archive = policy_of(model).archive
        return [apps.get_model(archive)] if archive else []
    label = model._meta.label_lower
    return [
        one
        for one in apps.get_models()
        if issubclass(one, Job) and (policy_of(one).archive or "").lower() == label
    ]
