"""The button by which an action is done as a job of its own, to more than one press may change:
where an app is installed that has such jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django.contrib import messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _

from ..exceptions import QueueFull
from .pages import row_url

FIELD = "dbqueue_as_job"  # the name of the button


class NoLongerOffered(ValueError):
    """What the button sent is none of what a page of this action has offered."""


@dataclass(frozen=True)
class Offer:
    """``token`` is what the button sends: which rows are meant."""

    token: str
    is_served: bool = True  # by a living worker, as far as that is known


class AsJob(Protocol):
    """Of an app that has such jobs. ``verb`` is a name in code."""

    def offer(self, verb: str, rows: QuerySet[Any]) -> Offer | None:
        """None where such a job cannot be told which rows are meant."""

    def enqueue(
        self,
        token: str,
        user: Any,
        verb: str,
        model: type[Model],
        until: datetime,
        values: Mapping[str, Any],
    ) -> Any:
        """The row of the job, which leaves out what came or ran after ``until``;
        ``NoLongerOffered`` where the token was made for something else."""


# One, or none.
AS_JOB: list[AsJob] = []


def offered(verb: str, rows: QuerySet[Any]) -> Offer | None:
    """Of what is done to all of these rows; the question says as of when."""
    return next((one.offer(verb, rows) for one in AS_JOB), None)


def is_chosen(request: HttpRequest) -> bool:
    return FIELD in request.POST


def enqueue(
    model_admin: Any,
    request: HttpRequest,
    verb: str,
    title: str,
    model: Any,
    until: datetime | None,
    **values: Any,
) -> HttpResponseRedirect | None:
    """To the page of the job; None where there is none, or nothing was enqueued. Who may have the
    verb done was asked before."""
    said = request.POST.get(FIELD, ""), request.user, verb, model
    try:
        if until is None:
            raise NoLongerOffered(verb)
        [job] = [one.enqueue(*said, until, values) for one in AS_JOB]
    except QueueFull as full:
        model_admin.message_user(request, str(full), messages.ERROR)
        return None
    except ValueError:  # nothing of ours, or the app is gone
        text = _("That page is too old. Nothing was changed: ask once more.")
        model_admin.message_user(request, text, messages.ERROR)
        return None
    url = row_url(model_admin.admin_site, request, type(job), job.pk, job._state.db)
    name = f"{job._meta.verbose_name} {job.pk}"
    shown = format_html('<a href="{}">{}</a>', url, name) if url else name
    text = _("%(action)s: %(job)s does it to all that match.")
    places = {"action": "{action}", "job": "{job}"}
    outcome = format_html(text % places, action=title, job=shown)
    model_admin.message_user(request, outcome, messages.SUCCESS)
    return HttpResponseRedirect(url) if url else None
