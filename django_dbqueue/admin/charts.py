"""The charts of a queue: throughput, failures, waiting and run times, backlog."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString

from ..history import CHARTED, Point, Quantiles, history
from ..lifecycle.census import MOST_QUEUES
from ..lifecycle.table import table_of
from ..report import count_kept, known_queues
from ..worker.options import UnknownTable, parse_served, queue_tables
from . import svg
from .words import clock, day_and_clock, number, short_time, time_tag

SPAN_WORDS = {"hour": "the last hour", "day": "the last day", "week": "the last week"}
# Seconds that are round in their own unit.
TIMES = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 360_000)
UNKNOWN = "Nothing is known of this time."


@dataclass(frozen=True)
class Chart:
    """One picture with its heading and legend, and what it says in words."""

    title: str
    text: str
    picture: SafeString
    legend: list[svg.Series]


def charts_view(model_admin: Any, request: HttpRequest) -> TemplateResponse:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    table, queue = _chosen_table(request), request.GET.get("queue") or None
    span = request.GET.get("span") if request.GET.get("span") in CHARTED else "hour"
    points = history(table.using, table.label, queue, str(span))
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"{table.label}: {queue or 'all queues'}, {SPAN_WORDS[str(span)]}",
        "opts": model_admin.opts,
        "media": model_admin.media,
        "table": table.label,
        "queue": queue or "",
        "tables": sorted(model._meta.label_lower for model in queue_tables()),
        "queues": _queues(table, queue),
        "span": span,
        "spans": SPAN_WORDS,
        "charts": charts(points, str(span)),
        "rows": [Row(point, str(span)) for point in reversed(points)],
        "is_empty": not any(map(_has_something, points)),
        "step": short_time(CHARTED[str(span)][1] * 60),
        "live": True,
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, "dbqueue/charts.html", context)


def _chosen_table(request: HttpRequest) -> Any:
    names = [name] if (name := request.GET.get("table")) else []
    try:
        served = parse_served([name.partition(":")[0] for name in names])
    except UnknownTable as error:
        raise Http404(str(error)) from error
    if not served:
        raise Http404("No queue table is installed.")
    return served[0]


def _queues(served: Any, queue: str | None) -> list[str]:
    table = table_of(served.model, served.using)
    known = known_queues(table, count_kept(table))[:MOST_QUEUES]
    return sorted({*known, *([queue] if queue else [])})


@dataclass(frozen=True)
class Row:
    """A line of the data table."""

    point: Point
    span: str

    @property
    def cells(self) -> list[str]:
        it = self.point
        times = [*_both(it.waited), *_both(it.ran)]
        counts = [number(it.completed), number(it.failed), number(it.buried)]
        return [*counts, "" if it.backlog is None else number(it.backlog), *times]

    @property
    def when(self) -> SafeString | str:
        return time_tag(self.point.start, _label(self.point, self.span))


def charts(points: Sequence[Point], span: str) -> list[Chart]:
    """The pictures of one page."""
    return [
        _throughput(points, span),
        _backlog(points, span),
        _times("waited", "Waiting time", points, span),
        _times("ran", "Run time", points, span),
    ]


def _throughput(points: Sequence[Point], span: str) -> Chart:
    series = [
        svg.Series("completed", "done", [one.completed for one in points]),
        svg.Series("failed attempts", "failed", [one.failed for one in points]),
    ]
    axis = svg.linear(max(one.completed + one.failed for one in points), number)
    done, failed, buried = (
        sum(getattr(one, name) for one in points) for name in ("completed", "failed", "buried")
    )
    text = f"{done:,} jobs completed, {failed:,} attempts failed, {buried:,} jobs buried."
    hints = [f"{p.completed:,} completed, {p.failed:,} failed" for p in points]
    marks = svg.bars(series, axis)
    return _chart("Throughput", text, svg.Plot(axis, marks, series), points, span, hints)


def _backlog(points: Sequence[Point], span: str) -> Chart:
    known = [one.backlog for one in points if one.backlog is not None]
    series = [svg.Series("jobs", "backlog", [one.backlog for one in points])]
    axis = svg.linear(max([*known, 0]), number)
    text = f"{known[-1]:,} jobs at the last count, {max(known):,} at most." if known else UNKNOWN
    hints = ["not counted" if p.backlog is None else f"{p.backlog:,} jobs" for p in points]
    plot = svg.Plot(axis, svg.lines(series, axis), series)
    return _chart("Waiting or running", text, plot, points, span, hints)


def _times(name: str, title: str, points: Sequence[Point], span: str) -> Chart:
    found: list[Quantiles | None] = [getattr(one, name) for one in points]
    series = [
        svg.Series("half of the jobs", "p50", [one.p50 if one else None for one in found]),
        svg.Series("95 of 100", "p95", [one.p95 if one else None for one in found]),
    ]
    known = [one for one in found if one]
    values = [seconds for one in known for seconds in (one.p50, one.p95)]
    axis = svg.logarithmic(values, TIMES, short_time)
    hints = [_said(one) for one in found]
    text = f"At the end {hints[found.index(known[-1])]}." if known else UNKNOWN
    plot = svg.Plot(axis, svg.lines(series, axis), series)
    return _chart(title, text, plot, points, span, hints)


def _chart(
    title: str,
    text: str,
    plot: svg.Plot,
    points: Sequence[Point],
    span: str,
    hints: Sequence[str],
) -> Chart:
    labels = [_label(point, span) for point in points]
    whole = [f"{label}: {hint}" for label, hint in zip(labels, hints, strict=True)]
    picture = svg.chart(title, text, plot, labels, whole)
    return Chart(title, text, picture, plot.series)


def _said(times: Quantiles | None) -> str:
    if times is None:
        return "nothing known"
    return f"half within {short_time(times.p50)}, 95 of 100 within {short_time(times.p95)}"


def _both(times: Quantiles | None) -> list[str]:
    return ["", ""] if times is None else [short_time(times.p50), short_time(times.p95)]


def _label(point: Point, span: str) -> str:
    return day_and_clock(point.start) if span == "week" else clock(point.start)


def _has_something(point: Point) -> bool:
    return bool(point.completed or point.failed or point.buried or point.waited or point.backlog)
