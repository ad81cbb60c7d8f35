"""The button by which an action is done as a job of its own, to more than one press may change:
where an app is installed that has such jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from django.contrib import messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _

from ..exceptions import QueueFull
from ..operate.keyset import Keyset
from ..operate.walking import WINDOW_ROWS_MAX
from .pages import row_url

FIELD = "dbqueue_as_job"  # the name of the button


class NoLongerOffered(ValueError):
    """What the button sent is none of what a page of this action has offered."""


@dataclass(frozen=True)
class Offer:
    """``token`` is what the button sends: which rows, as they were shown."""

    token: str
    is_served: bool = True  # by a living worker, as far as that is known


class AsJob(Protocol):
    """Of an app that has such jobs. ``verb`` is a name in code."""

    def offer(
        self, verb: str, rows: QuerySet[Any], shown_at: datetime | None = None
    ) -> Offer | None:
        """None where such a job cannot be told which rows are meant."""

    def enqueue(
        self, token: str, user: Any, verb: str, model: type[Model], values: Mapping[str, Any]
    ) -> Any:
        """The row of the job; ``NoLongerOffered`` where the token was made for something else."""


# One, or none.
AS_JOB: list[AsJob] = []


def offered(
    verb: str,
    rows: QuerySet[Any],
    keysets: Sequence[Keyset] | None,
    most: int,
    shown_at: datetime | None = None,
) -> Offer | None:
    """Where more than ``most`` rows may be meant; without ``keysets`` that is known. They count as
    they are now, or as they were when they were shown."""
    for one in AS_JOB:
        if keysets is None or may_exceed(keysets, most):
            return one.offer(verb, rows, shown_at)
    return None


def is_chosen(request: HttpRequest) -> bool:
    return FIELD in request.POST


def enqueue(
    model_admin: Any, request: HttpRequest, verb: str, title: str, model: Any, **values: Any
) -> HttpResponseRedirect | None:
    """To the page of the job; None where there is none, or nothing was enqueued. Who may have the
    verb done was asked before."""
    token = request.POST.get(FIELD, "")
    try:
        [job] = [one.enqueue(token, request.user, verb, model, values) for one in AS_JOB]
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
    said = format_html(text % places, action=title, job=shown)
    model_admin.message_user(request, said, messages.SUCCESS)
    return HttpResponseRedirect(url) if url else None


def may_exceed(keysets: Sequence[Keyset], most: int) -> bool:
    """Whether there are more rows, or that would take too long to find out."""
    left = most
    for whole in keysets:
        for keyset in whole.parts() if whole.undated and whole.scanned is not None else [whole]:
            found = replace(keyset, window_rows=WINDOW_ROWS_MAX)
            rows, window_end = found.window(None, backwards=False)
            backwards = keyset.order.is_descending and keyset.undated is not None
            rows = rows.order_by(keyset.order.columns(backwards)[0])
            left -= rows[: left + 1].count()
            if left < 0 or window_end is not None:
                return True
    return False
