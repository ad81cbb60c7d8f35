"""The first page: whether all is well, the last hour, what waits, fails, runs and is due, and what
people did."""

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ..metrics.counts import QUEUES_MAX
from ..metrics.numbers import sum_of
from ..models import Worker
from ..monitor.activity import activity as last_actions
from ..monitor.alerts import Alert
from ..monitor.glance import Glance, glance
from ..monitor.overview import Overview
from ..monitor.verdict import Verdict, with_level
from ..states import Status
from ..texts.wording import STATES
from . import activity, failures, slots, words
from .formatting import number, short, time_tag
from .pages import auto_refresh, list_url, page_url, respond, row_url
from .permissions import may
from .queue_rows import SHOWN, Group, groups, jobs_url
from .strip import strip

FAILURES_MAX = 5  # kinds that are shown here
ACTIVITY_MAX = 20
IDLE_MAX = 3  # queue tables without anything in them that are shown, and not folded
# What waits, works and has failed, of all queues.
SUMMED = {
    "waiting": {Status.READY, Status.DELAYED},
    "working": {Status.CLAIMED},
    "buried": {Status.BURIED},
}


@dataclass(frozen=True)
class Problem:
    """What is wrong, what to do about it, and where to look; '' where there is nothing to see."""

    text: str
    advice: str
    is_urgent: bool
    url: str
    link: str


@dataclass(frozen=True)
class Judgement:
    """The verdict as the page shows it; the first problem stands in the sentence."""

    level: str
    icon: str
    sentence: str
    first: Problem | None
    others: list[Problem]
    paused: str
    pauses: list[Problem]


ICONS = {"ok": "\u2713", "look": "\u25cf", "act": "\u25b2"}


def overview_view(model_admin: Any, request: HttpRequest) -> TemplateResponse:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    seen, site = glance(), model_admin.admin_site
    if not may(request, Worker, "view"):
        seen = seen.without_workers()
    context = {
        **auto_refresh(request),
        "title": _("Queues"),
        "judgement": judgement(seen.verdict, site, request),
        "summary": summary(seen.found),
        **_tables(seen, site, request),
        "problems": seen.found.problems,
        "heads": list(words.of_states({status: STATES[status.label] for status in SHOWN})),
        "dbqueue_words": list(words.of_queues()),
        "most_queues": QUEUES_MAX,
        "may_pause": model_admin.has_pause_permission(request),
        "workers_url": list_url(site, request, Worker),
        "failures_url": page_url(site, failures.LIST),
        "resume_url": page_url(site, "dbqueue_queue_resume"),
        "strip": strip(seen.last_hour, timezone.now()),
        "under_way": _under_way(seen.found, site, request),
        **_below(seen, site, request),
    }
    return respond(model_admin, request, "dbqueue/overview.html", context)


def _tables(seen: Glance, site: AdminSite, request: HttpRequest) -> dict[str, Any]:
    """The queue tables; those in which nothing is, and nothing happens, are folded if they are
    many."""
    every = groups(seen.found, site, request)
    idle = [group for group in every if group.is_idle]
    folded = idle if len(idle) > IDLE_MAX else []
    busy: list[Group] = [group for group in every if group not in folded]
    return {"groups": busy, "idle_groups": folded}


def _below(seen: Glance, site: AdminSite, request: HttpRequest) -> dict[str, Any]:
    """What fails, runs, and is due, and what people did."""
    rows = [one for one in seen.failures.groups if one.here.buried or one.day]
    running = list(slots.running_rows(seen.running, site, request))
    return {
        "failures": failures.rows_of(seen.failures, site, request, FAILURES_MAX),
        "more_failures": len(rows[FAILURES_MAX:]),
        "retry_url": page_url(site, failures.RETRY),
        "running": running,
        "more_running": len(seen.running) - len(running),
        "due": list(slots.due_rows(seen, site, request)),
        "activity": _activity(site, request),
        "activity_url": page_url(site, activity.LIST),
    }


def _under_way(found: Overview, site: AdminSite, request: HttpRequest) -> list[str]:
    """Of the tables that may be seen: a line has what a job is, and a note of its own."""
    return [
        line
        for label, lines in found.under_way.items()
        if list_url(site, request, apps.get_model(label))
        for line in lines
    ]


def _activity(site: AdminSite, request: HttpRequest) -> list[tuple[SafeString | str, activity.Row]]:
    """The last ones, each with its time in short."""
    found = last_actions(ACTIVITY_MAX, may_see=lambda model: may(request, model, "view")).found
    return [
        (time_tag(one.moment, short(one.moment)), activity.row_of(one, site, request))
        for one in found
    ]


def judgement(found: Verdict, site: AdminSite, request: HttpRequest) -> Judgement:
    problems = [_problem(one, site, request) for one in found.problems]
    first = problems[0] if problems else None
    sentence = with_level(found.level, first.text) if first else found.sentence
    pauses = [_problem(one, site, request) for one in found.pauses]
    icon = ICONS[found.level]
    return Judgement(found.level, icon, sentence, first, problems[1:], found.paused, pauses)


def _problem(one: Alert, site: AdminSite, request: HttpRequest) -> Problem:
    url, link = "", ""
    if one.kind == "buried":
        url, link = page_url(site, failures.LIST), _("See what failed")
    elif one.queue is not None and one.state is not None:
        url, link = jobs_url(one.queue, one.state, site, request), _("See the jobs")
    elif one.worker is not None:
        worker = one.worker
        url = row_url(site, request, Worker, worker.uuid, worker.database)
        link = _("See the worker")
    return Problem(one.text, one.advice, one.is_urgent, url, link if url else "")


def summary(found: Overview) -> list[tuple[str, str, str, str]]:
    """Names, labels and numbers of all queues together, and how old these are, '' where they are
    not."""
    words = {
        "waiting": pgettext("jobs", "waiting"),
        "working": pgettext("jobs", "working"),
        "buried": pgettext("jobs", "buried"),
    }
    lines = []
    for name, states in SUMMED.items():
        counts = [one.count(status) for one in found.queues for status in states]
        counts += [one.counts[status] for one in found.others for status in states]
        total = sum_of(counts)
        lines.append((name, words[name], total.text, total.age))
    living = sum(one.lives and bool(one.serves) for one in found.workers)
    rate = sum(one.hour.rate_out for one in found.queues)
    rate += sum(one.rate_out for one in found.others)
    return [
        *lines,
        ("workers", _("living workers"), number(living), ""),
        ("rate", _("jobs per minute"), number(rate), ""),
    ]
