"""The charts of a queue: throughput, failures, waiting and run times, backlog."""

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db.utils import Error
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..exceptions import first_line
from ..lifecycle.table import table_of
from ..metrics.counts import QUEUES_MAX
from ..metrics.time_series import CHARTED, Point, history
from ..monitor.report import known_queues
from ..worker.served import Served, UnknownTable, all_served, parse_served
from . import plots
from .databases import query_of
from .formatting import number, time_tag
from .pages import auto_refresh, list_url, page_url, respond

SPAN_LABELS = {
    "hour": gettext_lazy("the last hour"),
    "day": gettext_lazy("the last day"),
    "week": gettext_lazy("the last week"),
}
TEMPLATE = "dbqueue/charts.html"


def charts_view(model_admin: Any, request: HttpRequest) -> TemplateResponse:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    site, span = model_admin.admin_site, request.GET.get("span", "")
    span = span if span in CHARTED else "hour"
    context: dict[str, Any] = {
        "parent_title": _("Queues"),
        "parent_url": page_url(site, "dbqueue_queue_changelist"),
        "tables": sorted(one.title for one in all_served()),
        "spans": SPAN_LABELS,
        "span": span,
    }
    try:
        served, queue = _chosen(request)
    except Http404 as error:
        context |= {"title": _("Not found"), "problem": str(error)}
        return respond(model_admin, request, TEMPLATE, context, status=404)
    context |= {**auto_refresh(request), "table": served.title, "queue": queue or ""}
    context |= {"title": f"{served.title}: {queue or _('all queues')}, {SPAN_LABELS[span]}"}
    filters = ({"queue": queue} if queue else {}) | query_of(served.model, served.using)
    context |= {"jobs_url": list_url(site, request, served.model, **filters)}
    try:
        context |= _drawn(served, queue, span)
    except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
        context |= {"away": first_line(error)}
    return respond(model_admin, request, TEMPLATE, context)


def _drawn(served: Served, queue: str | None, span: str) -> dict[str, Any]:
    points = history(served.using, served.job_table, queue, span)
    known = known_queues(table_of(served.model, served.using))[:QUEUES_MAX]
    names = plots.names(points, span)
    return {
        "queues": sorted({*known, *([queue] if queue else [])}),
        "is_unknown": queue is not None and queue not in known,
        "is_empty": not any(
            it.completed or it.failed or it.buried or it.waited or it.peak is not None
            for it in points
        ),
        "charts": plots.charts(points, span),
        "rows": [Row(*row) for row in zip(reversed(points), reversed(names), strict=True)],
        "step": plots.step_label(span),
        "zone": timezone.get_current_timezone_name(),
    }


def _chosen(request: HttpRequest) -> tuple[Served, str | None]:
    """The queue table and the queue that the address names, None = all of its queues."""
    table, queue = request.GET.get("table"), request.GET.get("queue") or None
    try:
        served = parse_served([table.partition(":")[0]] if table else [])
    except UnknownTable as error:
        raise Http404(str(error)) from error
    if not served:
        raise Http404(_("No queue table is installed."))
    # What was written by hand may be no name of ours, and yet is shown.
    if queue and "\x00" in queue:
        raise Http404(_("No queue can have this name."))
    return served[0], queue


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
