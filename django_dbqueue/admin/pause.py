"""Pausing and resuming a queue by a person."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override, pgettext_lazy

from ..fields import aware, check_name
from ..models import Queue
from ..models.queue import FOR_GOOD
from ..monitor.alerts import pause_end
from ..operate import pausing
from ..texts.wording import number_later
from ..worker.served import Served, UnknownTable, parse_one
from . import confirmation
from .pages import page_url, respond

DAYS_MAX = 366
MINUTES_MAX = DAYS_MAX * 24 * 60
REASON_CHARACTERS_MAX = 500
MINUTES = format_lazy(
    gettext_lazy("Minutes: a whole number between 1 and {most}."), most=number_later(MINUTES_MAX)
)
UNTIL = format_lazy(
    gettext_lazy("Until: a date and time in the future, at most {days} days from now."),
    days=DAYS_MAX,
)
REASON = format_lazy(gettext_lazy("Reason: at most {most} characters."), most=REASON_CHARACTERS_MAX)
PAUSED: Any = gettext_lazy("Paused %(table)s, queue %(queue)s, %(end)s: %(reason)s.")
RESUMED: Any = gettext_lazy("Resumed %(table)s, queue %(queue)s.")
HOW = {
    "minutes": gettext_lazy("for some minutes"),
    "until": gettext_lazy("until a date and time"),
    "good": pgettext_lazy("a queue is paused", "until somebody resumes it"),
}


class PauseForm(forms.Form):
    """For how long, and why: those who find the queue paused have to know the reason."""

    how = forms.ChoiceField(
        label=gettext_lazy("For how long"), choices=HOW, widget=forms.RadioSelect, initial="minutes"
    )
    minutes = forms.IntegerField(
        label=gettext_lazy("Minutes"),
        required=False,
        initial=60,
        min_value=1,
        max_value=MINUTES_MAX,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), MINUTES),
    )
    until = forms.DateTimeField(
        label=gettext_lazy("Until"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        error_messages={"invalid": UNTIL},
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=REASON_CHARACTERS_MAX,
        widget=forms.TextInput(attrs={"size": 60}),
        error_messages={"required": gettext_lazy("Reason: say why."), "max_length": REASON},
    )

    _left: float | None = None  # seconds until the moment

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        how = data.get("how")
        problem = {"minutes": MINUTES, "until": UNTIL}.get(str(how))
        if problem and data.get(str(how)) is None and how not in self.errors:
            self.add_error(str(how), problem)
        if how == "until" and data.get("until"):
            # Asked once: what has passed the check must not be over when it is used.
            self._left = (aware(data["until"]) - datetime.now(UTC)).total_seconds()
            if not 0 < self._left <= DAYS_MAX * 86400:
                self.add_error("until", UNTIL)
        return data

    def seconds(self) -> float | None:
        """From now; None = for good."""
        how = self.cleaned_data["how"]
        if how == "minutes":
            return float(self.cleaned_data["minutes"] * 60)
        return self._left if how == "until" else None


def pause_view(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """The form, and what it does."""
    served, queue = _chosen(model_admin, request)
    form = PauseForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        reason, seconds = form.cleaned_data["reason"], form.seconds()
        pausing.pause(replace(served, queue=queue), seconds, reason)
        end = FOR_GOOD if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        with override(None):  # for the log
            logged = f"Paused {served.title}, queue {queue}, {pause_end(end)}: {reason}"
        said = PAUSED % {**_names(served, queue), "end": pause_end(end), "reason": reason}
        return _done(model_admin, request, served, queue, logged, said)
    context = {
        "title": _("Pause %(table)s, queue %(queue)s") % _names(served, queue),
        "form": form,
        "hidden": {"table": served.title, "queue": queue},
        "zone": timezone.get_current_timezone_name(),
        "parent_title": _("Queues"),
        "parent_url": page_url(model_admin.admin_site, "dbqueue_queue_changelist"),
    }
    return respond(model_admin, request, "dbqueue/pause.html", context)


def resume_view(model_admin: Any, request: HttpRequest) -> HttpResponse:
    served, queue = _chosen(model_admin, request)
    pausing.resume(replace(served, queue=queue))
    logged = f"Resumed {served.title}, queue {queue}"
    said = RESUMED % _names(served, queue)
    return _done(model_admin, request, served, queue, logged, said)


def _names(served: Served, queue: str) -> dict[str, str]:
    return {"table": served.title, "queue": queue}


def _chosen(model_admin: Any, request: HttpRequest) -> tuple[Served, str]:
    """The queue that it is about; refuses users who may not, and what is no queue."""
    if not model_admin.has_pause_permission(request):
        raise PermissionDenied
    data = request.POST if request.method == "POST" else request.GET
    table, queue = data.get("table", ""), data.get("queue", "")
    try:
        check_name(queue, "queue")
        served = parse_one(table.partition(":")[0])
    except (UnknownTable, ValidationError) as error:
        raise Http404(str(error)) from error
    return served, queue


def _done(
    model_admin: Any, request: HttpRequest, served: Served, queue: str, logged: str, said: str
) -> HttpResponse:
    row = Queue.objects.using(served.using).get(job_table=served.job_table, name=queue)
    confirmation.log(request, [row], logged)
    model_admin.message_user(request, said, messages.SUCCESS)
    may_see = model_admin.has_view_permission(request)
    name = "dbqueue_queue_changelist" if may_see else "index"
    return HttpResponseRedirect(page_url(model_admin.admin_site, name))
