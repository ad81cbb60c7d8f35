"""The pictures of a page of charts, each with a summary as text."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..metrics.time_series import CHARTED, Point, Quantiles
from ..models.minute import SPANS
from ..texts.wording import local
from . import svg
from .formatting import (
    clock,
    day_and_clock,
    number,
    percent,
    rounded,
    short_number,
    short_time,
    weekday,
)

# Seconds that are round in their own unit.
TIME_TICKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 360_000)
UNKNOWN = gettext_lazy("Nothing is known of this time.")
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
        _times("waited", _("Waiting time"), points, span),
        _times("ran", _("Run time"), points, span),
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
    return _("minute") if minutes == 1 else short_time(minutes * 60)


def bound(seconds: float) -> str:
    """What is known of a time by the end of its span: ``under 3 s``, ``over 1 h``."""
    if seconds > SPANS[-1]:
        return _("over %(time)s") % {"time": short_time(SPANS[-1])}
    return _("under %(time)s") % {"time": short_time(seconds)}


def _throughput(points: Sequence[Point], span: str) -> Chart:
    done = sum(one.completed for one in points)
    series = [
        svg.Series(_("completed"), "done", [one.completed for one in points]),
        svg.Series(_("failed attempts"), "failed", [one.failed for one in points]),
    ]
    per_minute = done / (len(points) * CHARTED[span][1])
    text, rate = (
        ngettext(
            "%(number)s job completed, %(rate)s a minute.",
            "%(number)s jobs completed, %(rate)s a minute.",
            done,
        ),
        per_minute,
    )
    if 0 < per_minute < 1:
        text, rate = (
            ngettext(
                "%(number)s job completed, %(rate)s an hour.",
                "%(number)s jobs completed, %(rate)s an hour.",
                done,
            ),
            per_minute * 60,
        )
    text %= {"number": number(done), "rate": rounded(rate)}
    hint = _("%(completed)s completed, %(failed)s failed")
    hints = [
        hint % {"completed": number(one.completed), "failed": number(one.failed)} for one in points
    ]
    title = _("Throughput per %(step)s") % {"step": step_label(span)}
    return _chart(title, text, _stacked(series), points, span, hints)


def _failures(points: Sequence[Point], span: str) -> Chart:
    done, failed, buried = (
        sum(getattr(one, name) for one in points) for name in ("completed", "failed", "buried")
    )
    series = [
        svg.Series(_("buried"), "buried", [one.buried for one in points]),
        svg.Series(_("tried again"), "failed", [max(0, p.failed - p.buried) for p in points]),
    ]
    jobs = ngettext("%(number)s job buried", "%(number)s jobs buried", buried)
    text = _("No attempt failed, %(jobs)s.")
    if failed:
        text = ngettext(
            "%(number)s attempt failed (%(share)s of all), %(jobs)s.",
            "%(number)s attempts failed (%(share)s of all), %(jobs)s.",
            failed,
        )
    text %= {
        "number": number(failed),
        "share": percent(failed / ((done + failed) or 1)),
        "jobs": jobs % {"number": number(buried)},
    }
    hint = _("%(failed)s failed, %(buried)s buried")
    hints = [hint % {"failed": number(one.failed), "buried": number(one.buried)} for one in points]
    title = _("Failed attempts per %(step)s") % {"step": step_label(span)}
    return _chart(title, text, _stacked(series), points, span, hints)


def _stacked(series: list[svg.Series]) -> svg.Plot:
    columns = zip(*(one.values for one in series), strict=True)
    axis = svg.linear(max(sum(value or 0 for value in each) for each in columns), short_number)
    return svg.Plot(axis, svg.bars(series, axis), series)


def _backlog(points: Sequence[Point], span: str) -> Chart:
    known = [one for one in points if one.peak is not None]
    most = max((one.peak or 0 for one in known), default=0)
    series = [svg.Series(_("jobs, at most"), "backlog", [one.peak for one in points])]
    axis = svg.linear(most, short_number)
    text = str(UNKNOWN)
    if known:
        last = known[-1].backlog or 0
        text = ngettext(
            "%(number)s job at the last count, %(most)s at most.",
            "%(number)s jobs at the last count, %(most)s at most.",
            last,
        )
        text %= {"number": number(last), "most": number(most)}
    hints = [_at_most(point.peak) for point in points]
    plot = svg.Plot(axis, svg.lines(series, axis), series)
    return _chart(_("Waiting or running"), text, plot, points, span, hints)


def _at_most(peak: int | None) -> str:
    if peak is None:
        return _("not counted")
    text = ngettext("%(number)s job at most", "%(number)s jobs at most", peak)
    return text % {"number": number(peak)}


def _times(name: str, title: str, points: Sequence[Point], span: str) -> Chart:
    found: list[Quantiles | None] = [getattr(one, name) for one in points]
    # What is over an hour is drawn there.
    halves = [min(one.p50, SPANS[-1]) if one else None for one in found]
    most = [min(one.p95, SPANS[-1]) if one else None for one in found]
    series = [
        svg.Series(_("half (p50)"), "p50", halves),
        svg.Series(_("95 of 100 (p95)"), "p95", most),
    ]
    values = [seconds for seconds in (*halves, *most) if seconds]
    axis = svg.logarithmic(values, TIME_TICKS, short_time)
    hint = _("half %(half)s, 95 of 100 %(most)s")
    hints = [
        hint % {"half": bound(one.p50), "most": bound(one.p95)} if one else _("nothing known")
        for one in found
    ]
    text = str(UNKNOWN)
    lines = zip(found, names(points, span), hints, strict=True)
    if known := [(one, name, hint) for one, name, hint in lines if one]:
        (last, when, hint), (worst, then, _hint) = known[-1], max(known, key=lambda it: it[0].p95)
        text, slowest = _("At %(time)s: %(times)s."), bound(worst.p95)
        if slowest != bound(last.p95):
            text = _("At %(time)s: %(times)s. Slowest at %(then)s: 95 of 100 %(slowest)s.")
        text %= {"time": when, "times": hint, "then": then, "slowest": slowest}
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
    whole[-1] = _("%(what)s so far") % {"what": whole[-1]}
    # A label where a new quarter of an hour, quarter of a day, or day begins.
    labels, period = [""], LABEL_PERIODS[span]
    for before, moment in pairwise(local(point.start) for point in points):
        is_day = span != "hour" and before.date() != moment.date()
        label = weekday(moment) if is_day else f"{moment:%H:%M}"
        labels.append(label if period(before) != period(moment) else "")
    return Chart(title, text, svg.chart(title, text, plot, labels, whole), plot.series)
