"""The pictures of a page of charts, each with a summary as text."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from django.utils.safestring import SafeString

from ..metrics.time_series import CHARTED, Point, Quantiles
from ..models.minute import SPANS
from . import svg
from .formatting import clock, day_and_clock, local, percent, rounded, short_number, short_time

# Seconds that are round in their own unit.
TIME_TICKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 360_000)
UNKNOWN = "Nothing is known of this time."
# What one label under the axis stands for.
LABEL_PERIODS: dict[str, Callable[[datetime], Hashable]] = {
    "hour": lambda at: (at.date(), at.hour, at.minute // 15),
    "day": lambda at: (at.date(), at.hour // 6),
    "week": datetime.date,
}


@dataclass(frozen=True)
class Chart:
    """One picture with its heading and legend, and a summary as text."""

    title: str
    text: str
    picture: SafeString
    legend: list[svg.Series]


def charts(points: Sequence[Point], span: str) -> list[Chart]:
    """The pictures of one page."""
    return [
        _throughput(points, span),
        _failures(points, span),
        _times("waited", "Waiting time", points, span),
        _times("ran", "Run time", points, span),
        _backlog(points, span),
    ]


def names(points: Sequence[Point], span: str) -> list[str]:
    """When each point began, as people here tell the time; in the night in which clocks are put
    back, with the name of the time."""
    moments = [local(point.start) for point in points]
    tell = day_and_clock if span == "week" else clock
    is_twice = len({moment.utcoffset() for moment in moments}) > 1
    return [tell(moment) + moment.strftime(" %Z") * is_twice for moment in moments]


def step_label(span: str) -> str:
    minutes = CHARTED[span][1]
    return "minute" if minutes == 1 else short_time(minutes * 60)


def bound(seconds: float) -> str:
    """What is known of a time that lies within a span: ``under 2.4 s``, ``over 1 h``."""
    if seconds >= SPANS[-1]:
        return f"over {short_time(SPANS[-1])}"
    return f"under {short_time(max(seconds, SPANS[0]))}"


def _throughput(points: Sequence[Point], span: str) -> Chart:
    done = sum(one.completed for one in points)
    series = [
        svg.Series("completed", "done", [one.completed for one in points]),
        svg.Series("failed attempts", "failed", [one.failed for one in points]),
    ]
    per_minute = done / (len(points) * CHARTED[span][1])
    if per_minute >= 1 or not per_minute:
        pace = f"{rounded(per_minute)} a minute"
    else:
        pace = f"{rounded(per_minute * 60)} an hour"
    text = f"{_counted(done, 'job')} completed, {pace}."
    hints = [f"{one.completed:,} completed, {one.failed:,} failed" for one in points]
    title = f"Throughput per {step_label(span)}"
    return _chart(title, text, _stacked(series), points, span, hints)


def _failures(points: Sequence[Point], span: str) -> Chart:
    done, failed, buried = (
        sum(getattr(one, name) for one in points) for name in ("completed", "failed", "buried")
    )
    series = [
        svg.Series("buried", "buried", [one.buried for one in points]),
        svg.Series("tried again", "failed", [max(0, p.failed - p.buried) for p in points]),
    ]
    share = f" ({percent(failed / (done + failed))} of all)" if failed else ""
    text = f"{_counted(failed, 'attempt')} failed{share}, {_counted(buried, 'job')} buried."
    hints = [f"{one.failed:,} failed, {one.buried:,} buried" for one in points]
    title = f"Failed attempts per {step_label(span)}"
    return _chart(title, text, _stacked(series), points, span, hints)


def _stacked(series: list[svg.Series]) -> svg.Plot:
    columns = zip(*(one.values for one in series), strict=True)
    axis = svg.linear(max(sum(value or 0 for value in each) for each in columns), short_number)
    return svg.Plot(axis, svg.bars(series, axis), series)


def _backlog(points: Sequence[Point], span: str) -> Chart:
    known = [one for one in points if one.peak is not None]
    most = max((one.peak or 0 for one in known), default=0)
    series = [svg.Series("jobs, at most", "backlog", [one.peak for one in points])]
    axis = svg.linear(most, short_number)
    text = UNKNOWN
    if known:
        text = f"{_counted(known[-1].backlog or 0, 'job')} at the last count, {most:,} at most."
    hints = [
        "not counted" if p.peak is None else f"{_counted(p.peak, 'job')} at most" for p in points
    ]
    plot = svg.Plot(axis, svg.lines(series, axis), series)
    return _chart("Waiting or running", text, plot, points, span, hints)


def _times(name: str, title: str, points: Sequence[Point], span: str) -> Chart:
    found: list[Quantiles | None] = [getattr(one, name) for one in points]
    series = [
        svg.Series("half (p50)", "p50", [one.p50 if one else None for one in found]),
        svg.Series("95 of 100 (p95)", "p95", [one.p95 if one else None for one in found]),
    ]
    values = [seconds for one in found if one for seconds in (one.p50, one.p95)]
    axis = svg.logarithmic(values, TIME_TICKS, short_time)
    hints = [
        f"half {bound(one.p50)}, 95 of 100 {bound(one.p95)}" if one else "nothing known"
        for one in found
    ]
    text = UNKNOWN
    lines = zip(found, names(points, span), hints, strict=True)
    if known := [(one, name, hint) for one, name, hint in lines if one]:
        (last, when, hint), (worst, then, _) = known[-1], max(known, key=lambda it: it[0].p95)
        text, slowest = f"At {when}: {hint}.", bound(worst.p95)
        if slowest != bound(last.p95):
            text += f" Slowest at {then}: 95 of 100 {slowest}."
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
    whole = [f"{name}: {hint}" for name, hint in zip(names(points, span), hints, strict=True)]
    whole[-1] += " so far"
    # A label where a new quarter of an hour, quarter of a day, or day begins.
    labels, period = [""], LABEL_PERIODS[span]
    for before, moment in pairwise(local(point.start) for point in points):
        is_day = span != "hour" and before.date() != moment.date()
        label = f"{moment:%a}" if is_day else f"{moment:%H:%M}"
        labels.append(label if period(before) != period(moment) else "")
    return Chart(title, text, svg.chart(title, text, plot, labels, whole), plot.series)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + "s" * (count != 1)
