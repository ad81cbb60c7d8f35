"""Schedules in the admin: added, changed, paused and run now, with what became of their ticks."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin, ShowFacets
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from ..admin.confirmation import log
from ..admin.formatting import time_tag
from ..admin.lists import CappedPaginator
from ..admin.pages import row_url
from ..admin.permissions import allows
from ..fields import InstantField
from ..guard import capture
from ..texts.wording import state_word
from .firing import run_now, why_not
from .models import Schedule, Tick
from .targets import TARGETS, Looked, table_model

if TYPE_CHECKING:  # at run time they take no parameters
    Base = ModelAdmin[Schedule]
    FormBase = forms.ModelForm[Schedule]
else:
    Base = ModelAdmin
    FormBase = forms.ModelForm

TICKS_SHOWN = 10
TIMING_CHARS_MAX = 30  # on one line of the list
SAID = (
    *("name", "timing", "time_zone", "starts_at", "kind", "target", "arguments", "queue"),
    *("priority", "missed", "catch_up_within", "overlap"),
)
FOUND = ("state", "next_tick", "count", "is_declared", "last_ticks")
GONE = Looked("gone, or in the archive")  # for people; wording has it, too


KINDS = {"table": gettext_lazy("queue table"), "task": gettext_lazy("task")}


class ScheduleForm(FormBase):
    # Set by the admin: who enqueues by hand needs the same permission.
    user: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "kind" in self.fields:
            kinds = [(name, str(KINDS.get(name, one.label))) for name, one in TARGETS.items()]
            self.fields["kind"] = forms.ChoiceField(choices=kinds, label=_("Kind of target"))

    def clean(self) -> Any:
        data: Any = super().clean()
        meta = None
        with suppress(ValidationError):  # the model says so, too
            meta = table_model(data.get("target", ""))._meta
        if data.get("kind") == "table" and meta is not None:
            codename = f"{meta.app_label}.add_{meta.model_name}"
            if not self.user.has_perm(codename):
                text = _("target: you lack the permission %(name)s.") % {"name": codename}
                self.add_error("target", text)
        return data

    def _post_clean(self) -> None:
        """Once the model itself has nothing to say of it."""
        super()._post_clean()  # type: ignore[misc]  # why: the stubs lack it
        if self.errors:
            return
        schedule = self.instance
        try:
            schedule.target_kind().check_database(schedule.target, schedule.alias())
        except ValidationError as error:
            self.add_error(None, error)


@admin.register(Schedule)
class ScheduleAdmin(Base):
    form = ScheduleForm
    # In one box: Django's two for a date and a time have no labels.
    formfield_overrides = {
        InstantField: {"form_class": forms.DateTimeField, "widget": forms.DateTimeInput}
    }
    fieldsets = ((None, {"fields": SAID}), (gettext_lazy("What became of it"), {"fields": FOUND}))
    readonly_fields = FOUND
    list_display = ("name", "ticks_at", "zone", "target", "next_tick", "state", "is_declared")
    list_filter = ("is_paused", "is_declared")
    search_fields = ("name", "target")
    ordering = ("name",)
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    list_per_page = 50

    class Media:
        css = {"all": ["dbqueue/admin.css"]}

    actions = ("pause_selected", "resume_selected", "run_selected")

    has_pause_permission = allows("pause")
    has_run_permission = allows("run")

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        return type("ScheduleForm", (form,), {"user": request.user})

    def get_fieldsets(self, request: HttpRequest, obj: Schedule | None = None) -> Any:
        # A new one has no ticks yet.
        return self.fieldsets if obj else self.fieldsets[:1]

    def has_change_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        """What is declared in code is changed there."""
        is_declared = obj is not None and obj.is_declared
        return not is_declared and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        is_declared = obj is not None and obj.is_declared
        return not is_declared and super().has_delete_permission(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Their ticks go along without a permission of their own; the declared ones do not go."""
        declared = [one for one in objs if one.is_declared]
        counts = {self.opts.verbose_name_plural: len(objs)}
        return (
            [str(one) for one in objs],
            counts,
            set(),
            [_("%(name)s (declared)") % {"name": one} for one in declared],
        )

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        schedule: Any = super().get_object(request, *args, **kwargs)
        if schedule is not None:
            # Whose permissions decide what is linked.
            schedule.asked_by = request
        return schedule

    @admin.display(description=gettext_lazy("timing"), ordering="timing")
    def ticks_at(self, schedule: Schedule) -> SafeString | str:
        """On one line, as long as that is no wider than other columns."""
        if len(schedule.timing) > TIMING_CHARS_MAX:
            return schedule.timing
        return format_html('<span class="dbqueue-whole">{}</span>', schedule.timing)

    @admin.display(description=gettext_lazy("time zone"))
    def zone(self, schedule: Schedule) -> str:
        return schedule.zone

    @admin.display(description=gettext_lazy("state"))
    def state(self, schedule: Schedule) -> str:
        if schedule.is_paused:
            return _("paused")
        if schedule.error:
            return _("broken: %(error)s") % {"error": schedule.error}
        return "" if schedule.next_tick else _("never ticks again")

    @admin.display(description=gettext_lazy("last ticks"))
    def last_ticks(self, schedule: Any) -> SafeString | str:
        rows = Tick.objects.using(schedule.alias()).filter(schedule=schedule.pk)
        ticks = list(rows.order_by("-tick")[:TICKS_SHOWN])
        if not ticks:
            return _("none yet")
        looked = look_at(ticks, schedule.alias())
        request = schedule.asked_by
        lines = ((time_tag(t.tick), self._job(request, t, looked.get(t.pk)), t.note) for t in ticks)
        cells = format_html_join("", "<tr><td>{}</td><td>{}</td><td>{}</td></tr>", lines)
        words = pgettext("of a schedule", "tick"), _("job"), _("note")
        head = format_html("<tr><th>{}</th><th>{}</th><th>{}</th></tr>", *words)
        return format_html("<table>{}{}</table>", head, cells)

    def _job(self, request: HttpRequest, tick: Tick, found: Looked | None) -> SafeString | str:
        if not tick.job:
            return _("none") if tick.note else tick.target
        name = f"{tick.target} {tick.job}"
        if found is None:
            return name
        key, alias = found.key or tick.job, found.alias or tick._state.db
        url = row_url(self.admin_site, request, found.model, key, alias) if found.model else ""
        link = format_html('<a href="{}">{}</a>', url, name) if url else name
        return format_html("{}: {}", link, looked_word(found.words))

    @admin.action(permissions=["pause"], description=pgettext_lazy("action", "Pause"))
    def pause_selected(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        self._do(request, queryset, Schedule.pause, "Paused", _("Paused: %(names)s"))

    @admin.action(permissions=["pause"], description=pgettext_lazy("action", "Resume"))
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        self._do(request, queryset, Schedule.resume, "Resumed", _("Resumed: %(names)s"))

    @admin.action(permissions=["run"], description=pgettext_lazy("action", "Run now"))
    def run_selected(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        by = f"{request.user.get_username()}, in the admin"
        said = _("Enqueued a job of: %(names)s")
        self._do(request, queryset, lambda one: run_now(one, by), "Enqueued a job of", said)

    def _do(
        self,
        request: HttpRequest,
        queryset: Iterable[Schedule],
        act: Callable[[Schedule], object],
        logged: str,
        said: str,
    ) -> None:
        """One that does not work is named, and is in nobody's way."""
        done, chosen = [], list(queryset)
        if not chosen:  # they have gone
            self.message_user(request, said % {"names": _("none")}, messages.WARNING)
        for schedule in chosen:
            with capture() as outcome:
                act(schedule)
            if outcome.error is None:
                done.append(schedule)
            else:
                self.message_user(request, why_not(schedule, outcome.error), messages.ERROR)
        log(request, done, logged)
        if done:
            names = ", ".join(map(str, done))
            self.message_user(request, said % {"names": names}, messages.SUCCESS)


def looked_word(words: str) -> str:
    return _("gone, or in the archive") if words == GONE.words else state_word(words)


def look_at(ticks: list[Tick], using: str) -> dict[int, Looked]:
    """What became of their jobs, by the ticks' keys; nothing where nobody can tell."""
    found: dict[int, Looked] = {}
    for kind, target in {(tick.kind, tick.target) for tick in ticks if tick.job}:
        its = [t for t in ticks if t.job and (t.kind, t.target) == (kind, target)]
        if kind not in TARGETS:
            continue
        with capture():  # its table may be gone
            states = TARGETS[kind].look(target, [tick.job for tick in its], using)
            if states is not None:
                found |= {tick.pk: states.get(tick.job, GONE) for tick in its}
    return found
