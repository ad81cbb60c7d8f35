"""Pausing and resuming a queue by a person."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone

from ..fields import check_name
from ..models import Queue
from ..models.queue import FOR_GOOD
from ..monitor.alerts import pause_end
from ..worker.served import Served, UnknownTable, parse_one
from . import confirmation
from .pages import page_url, respond

DAYS_MAX = 366
MINUTES_MAX = DAYS_MAX * 24 * 60
REASON_CHARACTERS_MAX = 500
MINUTES = f"Minutes: a whole number between 1 and {MINUTES_MAX:,}."
UNTIL = f"Until: a date and time in the future, at most {DAYS_MAX} days from now."
REASON = f"Reason: at most {REASON_CHARACTERS_MAX} characters."
HOW = {
    "minutes": "for some minutes",
    "until": "until a date and time",
    "good": "until somebody resumes it",
}


class PauseForm(forms.Form):
    """For how long, and why: those who find the queue paused have to know the reason."""

    how = forms.ChoiceField(
        label="For how long", choices=HOW, widget=forms.RadioSelect, initial="minutes"
    )
    minutes = forms.IntegerField(
        required=False,
        initial=60,
        min_value=1,
        max_value=MINUTES_MAX,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), MINUTES),
    )
    until = forms.DateTimeField(
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        error_messages={"invalid": UNTIL},
    )
    reason = forms.CharField(
        max_length=REASON_CHARACTERS_MAX,
        widget=forms.TextInput(attrs={"size": 60}),
        error_messages={"required": "Reason: say why.", "max_length": REASON},
    )

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        how = data.get("how")
        problem = {"minutes": MINUTES, "until": UNTIL}.get(str(how))
        if problem and data.get(str(how)) is None and how not in self.errors:
            self.add_error(str(how), problem)
        if how == "until" and data.get("until") and not 0 < self._left() <= DAYS_MAX * 86400:
            self.add_error("until", UNTIL)
        return data

    def seconds(self) -> float | None:
        """From now; None = for good."""
        how = self.cleaned_data["how"]
        if how == "minutes":
            return float(self.cleaned_data["minutes"] * 60)
        return self._left() if how == "until" else None

    def _left(self) -> float:
        left: timedelta = self.cleaned_data["until"] - timezone.now()
        return left.total_seconds()


def pause_view(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """The form, and what it does."""
    served, queue = _chosen(model_admin, request)
    form = PauseForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        reason, seconds = form.cleaned_data["reason"], form.seconds()
        manager: Any = served.model.objects
        manager.using(served.using).pause(queue, seconds, reason)
        end = FOR_GOOD if seconds is None else timezone.now() + timedelta(seconds=seconds)
        said = f"Paused {served.title}, queue {queue}, {pause_end(end)}: {reason}"
        return _done(model_admin, request, served, queue, said)
    context = {
        "title": f"Pause {served.title}, queue {queue}",
        "form": form,
        "hidden": {"table": served.title, "queue": queue},
        "zone": timezone.get_current_timezone_name(),
        "parent_title": "Queues",
        "parent_url": page_url(model_admin.admin_site, "dbqueue_queue_changelist"),
    }
    return respond(model_admin, request, "dbqueue/pause.html", context)


def resume_view(model_admin: Any, request: HttpRequest) -> HttpResponse:
    served, queue = _chosen(model_admin, request)
    manager: Any = served.model.objects
    manager.using(served.using).resume(queue)
    said = f"Resumed {served.title}, queue {queue}"
    return _done(model_admin, request, served, queue, said)


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
    model_admin: Any, request: HttpRequest, served: Served, queue: str, said: str
) -> HttpResponse:
    row = Queue.objects.using(served.using).get(job_table=served.job_table, name=queue)
    confirmation.log(request, [row], said)
    model_admin.message_user(request, f"{said}.", messages.SUCCESS)
    may_see = model_admin.has_view_permission(request)
    name = "dbqueue_queue_changelist" if may_see else "index"
    return HttpResponseRedirect(page_url(model_admin.admin_site, name))
