"""The page of all queues: what waits, how fast it goes, what is wrong and what to do."""

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString

from ..conf import conf
from ..fields import check_name
from ..lifecycle.claim_end import duration
from ..metrics.counts import QUEUES_MAX
from ..metrics.numbers import sum_of
from ..models import Worker
from ..monitor.alerts import alerts, pause_end, scope_of
from ..monitor.overview import Overview, QueueOverview, overview
from ..states import Status
from .databases import query_of
from .formatting import number, percent
from .pages import auto_refresh, list_url, page_url, respond
from .svg import sparkline

SHOWN = (Status.READY, Status.DELAYED, Status.CLAIMED, Status.BURIED)
NOT_KNOWN = "There may be more: a worker has not counted them yet."
# What waits, works and has failed, of all queues.
SUMMED = {
    "waiting": {Status.READY, Status.DELAYED},
    "working": {Status.CLAIMED},
    "buried": {Status.BURIED},
}


@dataclass(frozen=True)
class Cell:
    """A number, how old it is, why it is not exact, and the list of the jobs that it counts."""

    name: str
    text: str
    age: str
    title: str
    url: str


@dataclass(frozen=True)
class Row:
    """A queue as the page shows it; '' is what is not known, or must not be done."""

    queue: QueueOverview
    cells: list[Cell]
    oldest: str
    is_late: bool
    rate_in: str
    rate_out: str
    failed: str
    spark: SafeString
    charts_url: str
    pause_url: str
    paused: str
    filled: str  # how full a bounded queue is

    @property
    def done(self) -> str:
        return number(self.queue.hour.completed)

    @property
    def workers(self) -> int:
        return len(self.queue.workers)


@dataclass(frozen=True)
class Group:
    """A queue table with its queues, or why it cannot be asked."""

    label: str
    title: str
    url: str
    rows: list[Row]
    problem: str
    is_cut: bool


def overview_view(model_admin: Any, request: HttpRequest) -> TemplateResponse:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    found, site = overview(), model_admin.admin_site
    context = {
        **auto_refresh(request),
        "title": "Queues",
        "dbqueue_banners": alerts(found),
        "summary": summary(found),
        "groups": groups(found, site, request),
        "problems": found.problems,
        "heads": [status.label for status in SHOWN],
        "most_queues": QUEUES_MAX,
        "may_pause": model_admin.has_pause_permission(request),
        "workers_url": list_url(site, request, Worker),
        "failures_url": page_url(site, "dbqueue_queue_failures"),
        "deeds_url": page_url(site, "dbqueue_queue_deeds"),
        "resume_url": page_url(site, "dbqueue_queue_resume"),
    }
    return respond(model_admin, request, "dbqueue/overview.html", context)


def summary(found: Overview) -> list[tuple[str, str]]:
    """Labels and numbers of all queues together."""
    lines = []
    for name, states in SUMMED.items():
        total = sum_of(one.count(status) for one in found.queues for status in states)
        lines.append((name, str(total)))
    living = sum(one.lives and bool(one.serves) for one in found.workers)
    rate = number(sum(one.hour.rate_out for one in found.queues))
    return [*lines, ("living workers", number(living)), ("jobs per minute", rate)]


def groups(found: Overview, site: AdminSite, request: HttpRequest) -> list[Group]:
    """The queue tables that have a queue to show, or cannot be asked."""
    by_table: dict[str, list[QueueOverview]] = {
        label: [] for label in found.problems if " " not in label
    }
    for one in found.queues:
        by_table.setdefault(one.title, []).append(one)
    places = {label: label.partition("@") for label in by_table}
    models = {label: apps.get_model(place[0]) for label, place in places.items()}
    return [
        Group(
            label=label,
            title=str(models[label]._meta.verbose_name_plural),
            url=list_url(site, request, models[label], **query_of(models[label], places[label][2])),
            rows=[_row(one, site, request) for one in queues],
            problem=found.problems.get(label, ""),
            is_cut=label in found.cut,
        )
        for label, queues in by_table.items()
    ]


def _row(one: QueueOverview, site: AdminSite, request: HttpRequest) -> Row:
    hour, query = one.hour, {"table": one.title, "queue": one.queue}
    title = f"Charts of {one.queue}: {hour.completed:,} done in the last hour"
    try:
        check_name(one.queue, "queue")
        pause_url = page_url(site, "dbqueue_queue_pause", **query)
    except ValidationError:  # edited by hand into no name: it cannot be paused
        pause_url = ""
    return Row(
        queue=one,
        cells=[_cell(one, status, site, request) for status in SHOWN],
        oldest="" if one.oldest_seconds is None else duration(max(0.0, one.oldest_seconds)),
        is_late=(one.oldest_seconds or 0) > conf["LATE_AFTER"],
        rate_in="" if hour.rate_in is None else number(hour.rate_in),
        rate_out=number(hour.rate_out),
        failed="" if hour.failure_share is None else percent(hour.failure_share),
        spark=sparkline(hour.per_minute, title),
        charts_url=page_url(site, "dbqueue_queue_charts", **query, span="hour"),
        pause_url=pause_url,
        paused=f"{pause_end(one.paused.paused_until)}{scope_of(one.paused)}" if one.paused else "",
        filled=_filled(one),
    )


def _filled(one: QueueOverview) -> str:
    if one.max_length is None:
        return ""
    return f"holds {one.held} of {number(one.max_length)}"


def _cell(one: QueueOverview, status: Status, site: AdminSite, request: HttpRequest) -> Cell:
    counted = one.count(status)
    text = "?" if counted.is_at_least and not counted.number else counted.text
    model = apps.get_model(one.table)
    query = {"state": status.value, "queue": one.queue, **query_of(model, one.database)}
    url = list_url(site, request, model, **query) if counted.number else ""
    title = NOT_KNOWN if counted.is_at_least else ""
    return Cell(status.label, text, counted.age, title, url)
