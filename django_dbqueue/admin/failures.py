"""The page of failures, kind by kind, and the button that puts their jobs back to work."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import connections
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ..fields import InstantField
from ..metrics.counts import UNKNOWN, Failed
from ..monitor.failures import FailureGroup, Failures, choice_of, failures, one_group
from ..operate import recording
from ..operate.acting import KICK, Progress, Verb
from ..operate.orders import in_state
from ..states import Status
from ..worker.served import Served, UnknownTable, parse_one
from . import as_job, confirmation, matching, words
from .actions import KICK as RETRYING
from .actions import level_of, outcome, stopped
from .databases import query_of
from .formatting import number, time_tag
from .lists import RetryingFilter
from .pages import auto_refresh, list_url, page_url, respond
from .permissions import may
from .svg import sparkline
from .values import PREFIX, RetryForm

LIST, RETRY = "dbqueue_queue_failures", "dbqueue_queue_retry"


@dataclass(frozen=True)
class Row:
    """A kind of failure as the page shows it; '' is what is not known, or not for this person."""

    group: FailureGroup
    name: str
    words: str
    spark: SafeString
    last_seen: SafeString | str
    first_seen: SafeString | str
    failed: str
    failed_url: str
    retrying: str
    retrying_url: str
    until: str
    may_retry: bool

    @property
    def hour(self) -> str:
        return number(self.group.hour)

    @property
    def day(self) -> str:
        return number(self.group.day)


def failures_view(model_admin: Any, request: HttpRequest) -> TemplateResponse:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    found, site = failures(), model_admin.admin_site
    context = {
        **auto_refresh(request),
        "title": _("Failures"),
        "parent_title": _("Queues"),
        "parent_url": page_url(site, "dbqueue_queue_changelist"),
        "rows": rows_of(found, site, request),
        "problems": found.problems,
        "more_kinds": found.more_kinds,
        "retry_url": page_url(site, RETRY),
        "dbqueue_words": list(words.others(words.OF_FAILURES)),
    }
    return respond(model_admin, request, "dbqueue/failures.html", context)


def rows_of(
    found: Failures, site: AdminSite, request: HttpRequest, most: int | None = None
) -> list[Row]:
    """The first of them, as far as they are wanted."""
    return [_row(one, found, site, request) for one in found.groups[:most]]


def _row(one: FailureGroup, found: Failures, site: AdminSite, request: HttpRequest) -> Row:
    model, name = one.served.model, one.failure.exception.rpartition(".")[2]
    query = {"failure": one.fingerprint, **query_of(model, one.served.using)}
    here, shown_at = one.here, found.shown_at[one.served.using]
    day = {"number": number(one.day)}
    buried = Status.BURIED.value
    is_unknown = here == UNKNOWN and not one.is_other
    return Row(
        group=one,
        name=_("of other kinds") if one.is_other else name or _("an error"),
        words=one.failure.words if may(request, one.served.model, "inspect") else "",
        spark=sparkline(one.per_point, _("%(number)s in the last 24 hours, by half hours") % day),
        last_seen=time_tag(one.last_seen),
        first_seen=time_tag(one.first_seen),
        failed=counted(here, here.buried),
        failed_url=list_url(site, request, model, **query, state=buried)
        if here.buried or is_unknown
        else "",
        retrying=counted(here, here.retrying),
        retrying_url=list_url(site, request, model, **query, **RetryingFilter.asked)
        if here.retrying or is_unknown
        else "",
        until=shown_at.isoformat(),
        may_retry=bool(here.buried) and may(request, one.served.model, "retry"),
    )


def counted(here: Failed, count: int) -> str:
    return "?" if here == UNKNOWN else number(count) + "+" * here.is_at_least


@dataclass(frozen=True)
class Asked:
    """The failure whose jobs somebody wants to retry: those buried up to a moment."""

    served: Served
    fingerprint: str
    until: datetime

    @property
    def hidden(self) -> dict[str, str]:
        return {
            "table": f"{self.served.label}@{self.served.using}",
            "failure": self.fingerprint,
            "until": self.until.isoformat(),
        }


def retry_view(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """The question, and what follows the answer: it is done to those that were counted for it."""
    asked = _asked(request)
    if not (model_admin.has_view_permission(request) and may(request, asked.served.model, "retry")):
        raise PermissionDenied
    is_confirmed = confirmation.is_confirmed(request)
    form = RetryForm(request.POST if is_confirmed else None, prefix=PREFIX)
    if is_confirmed and form.is_valid():
        verb = KICK.with_values(**form.values())
        if as_job.is_chosen(request):
            said, back = RETRYING.sentence(verb), page_url(model_admin.admin_site, LIST)
            model, values = asked.served.model, dict(verb.values)
            shown = said, model, asked.until
            page = as_job.enqueue(model_admin, request, KICK.name, *shown, **values)
            return page or HttpResponseRedirect(back)
        return _retry(model_admin, request, asked, verb)
    group = one_group(asked.served, asked.fingerprint, asked.until)
    may_inspect = may(request, asked.served.model, "inspect")
    count = 0 if group is None else group.here.buried
    context = {
        "title": RETRYING.question.title,
        "form": form,
        "zone": timezone.get_current_timezone_name(),
        "all_url": _list_of(model_admin.admin_site, request, asked),
        "parent_title": _("Failures"),
        "parent_url": page_url(model_admin.admin_site, LIST),
        "group": group,
        "words": group.failure.words if group and may_inspect else "",
        "count": "0" if group is None else counted(group.here, count),
        "at_once": number(min(count, matching.ROWS_MAX)),
        "is_more": count > matching.ROWS_MAX,
        "offer": _offer(asked) if count > matching.ROWS_MAX else None,
        "hidden": asked.hidden | {"count": str(count)},
    }
    return respond(model_admin, request, "dbqueue/retry.html", context)


def _asked(request: HttpRequest) -> Asked:
    data = request.POST
    try:
        served = parse_one(data.get("table", "").partition(":")[0])
        until = InstantField().get_prep_value(datetime.fromisoformat(data.get("until", "")))
    except (UnknownTable, ValidationError, ValueError) as error:
        raise Http404(_("No such failures.")) from error
    if served.using not in connections or "\x00" in data.get("failure", ""):
        raise Http404(_("No such failures."))
    return Asked(served, data.get("failure", ""), until)


def _offer(asked: Asked) -> as_job.Offer | None:
    rows = asked.served.model._default_manager.using(asked.served.using)
    buried = in_state(rows.filter(failure=asked.fingerprint), Status.BURIED)
    return as_job.offered(KICK.name, buried)


def _list_of(site: AdminSite, request: HttpRequest, asked: Asked) -> str:
    """Where the same jobs may be moved, cancelled and so on."""
    model = asked.served.model
    query = {"failure": asked.fingerprint, "state": Status.BURIED.value}
    return list_url(site, request, model, **query, **query_of(model, asked.served.using))


def _retry(model_admin: Any, request: HttpRequest, asked: Asked, verb: Verb) -> HttpResponse:
    count = request.POST.get("count", "")
    # No more digits than matter: Python refuses to read thousands of them.
    most = min(int(count[:9]) if count.isdecimal() else 0, matching.ROWS_MAX)
    progress = Progress(verb, most, recording.KEYS_NAMED_MAX, seconds=matching.PRESS_SECONDS)
    try:
        for keyset in choice_of(asked.fingerprint, asked.until).keysets(asked.served, verb.sources):
            progress.do(keyset)
    finally:
        # What was done is recorded, even if the rest failed.
        said = f"{verb.told}: {progress}; failure {asked.fingerprint}"
        confirmation.log(request, progress.first, said, progress.taken)
    # What failed since it was shown is not meant.
    progress.has_more = progress.has_more and progress.taken < most
    text = outcome(RETRYING.sentence(verb), progress)
    text += f" {stopped()}" * progress.has_more
    model_admin.message_user(request, text, level_of(progress))
    return HttpResponseRedirect(page_url(model_admin.admin_site, LIST))
