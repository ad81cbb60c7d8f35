"""The charts of a queue: throughput, failures, waiting and run times, backlog."""

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from ..lifecycle.table import table_of
from ..metrics.counts import MOST_COUNTED, MOST_QUEUES
from ..metrics.time_series import CHARTED, Point, history
from ..monitor.report import known_queues
from ..worker.served import Served, UnknownTable, parse_served, queue_tables
from . import plots
from .auto_refresh import live
from .formatting import number, time_tag
from .links import list_of, page

SPAN_WORDS = {"hour": "the last hour", "day": "the last day", "week": "the last week"}
TEMPLATE = "dbqueue/charts.html"


def charts_view(model_admin: Any, request: HttpRequest) -> TemplateResponse:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    site = model_admin.admin_site
    request.current_app = site.name
    context = {
        **site.each_context(request),
        "opts": model_admin.opts,
        "media": model_admin.media,
        "parent_title": "Queues",
        "parent_url": page(site, "dbqueue_queue_changelist"),
        "tables": sorted(model._meta.label_lower for model in queue_tables()),
        "spans": SPAN_WORDS,
        "span": _span(request),
    }
    try:
        served, queue = _chosen_table(request), _chosen_queue(request)
    except Http404 as error:
        context |= {"title": "Not found", "problem": str(error)}
        return TemplateResponse(request, TEMPLATE, context, status=404)
    jobs_url = list_of(site, request, served.model, **({"queue": queue} if queue else {}))
    context |= {**live(request), "jobs_url": jobs_url, **_shown(served, queue, _span(request))}
    return TemplateResponse(request, TEMPLATE, context)


def _span(request: HttpRequest) -> str:
    asked = request.GET.get("span", "")
    return asked if asked in CHARTED else "hour"


def _chosen_table(request: HttpRequest) -> Served:
    names = [name] if (name := request.GET.get("table")) else []
    try:
        served = parse_served([name.partition(":")[0] for name in names])
    except UnknownTable as error:
        raise Http404(str(error)) from error
    if not served:
        raise Http404("No queue table is installed.")
    return served[0]


def _chosen_queue(request: HttpRequest) -> str | None:
    """None = all of them. What was written by hand may be no name of ours, and yet is shown."""
    queue = request.GET.get("queue") or None
    if queue and "\x00" in queue:
        raise Http404("No queue can have this name.")
    return queue


def _shown(served: Served, queue: str | None, span: str) -> dict[str, Any]:
    """What the page says of a queue."""
    points, known = history(served.using, served.job_table, queue, span), _known_queues(served)
    names = plots.names(points, span)
    return {
        "title": f"{served.label}: {queue or 'all queues'}, {SPAN_WORDS[span]}",
        "table": served.label,
        "queue": queue or "",
        "queues": sorted({*known, queue} - {None}),
        "is_unknown": queue is not None and queue not in known,
        "is_empty": not any(map(_has_something, points)),
        "charts": plots.charts(points, span),
        "rows": [Row(*row) for row in zip(reversed(points), reversed(names), strict=True)],
        "step": plots.step_words(span),
        "most_counted": number(MOST_COUNTED),
        "zone": timezone.get_current_timezone_name(),
    }


def _known_queues(served: Served) -> list[str]:
    return known_queues(table_of(served.model, served.using))[:MOST_QUEUES]


def _has_something(point: Point) -> bool:
    happened = point.completed or point.failed or point.buried
    return bool(happened or point.waited or point.peak is not None)


@dataclass(frozen=True)
class Row:
    """A line of the table of figures."""

    point: Point
    name: str

    @property
    def cells(self) -> list[str]:
        it = self.point
        counts = [number(it.completed), number(it.failed), number(it.buried)]
        times = [
            plots.bound(seconds) if one else ""
            for one in (it.waited, it.ran)
            for seconds in ((one.p50, one.p95) if one else (0, 0))
        ]
        return [*counts, "" if it.peak is None else number(it.peak), *times]

    @property
    def when(self) -> SafeString | str:
        return time_tag(self.point.start, self.name)
