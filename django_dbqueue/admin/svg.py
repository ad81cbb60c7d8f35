"""Charts as inline SVG: no script, no inline style; colours are the style sheet's."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 400, 170
LEFT, RIGHT, TOP, BOTTOM = 52, 6, 10, 24
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
SPARK_WIDTH, SPARK_HEIGHT = 120, 24
THIN = 1.5  # the least height of a bar: what is not nothing is seen
LABEL_HALF = 18  # of the width of a time's label

Scale = Callable[[float], float]


@dataclass(frozen=True)
class Series:
    """One row of values; None is a gap. ``kind`` is the class of its marks."""

    name: str
    kind: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Axis:
    """The ends of a vertical scale, and its ticks with their labels."""

    low: float
    high: float
    ticks: list[tuple[float, str]] = field(default_factory=list)
    is_logarithmic: bool = False

    def position(self, value: float) -> float:
        """From the top, in the chart's units."""
        if self.is_logarithmic:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(TOP + INNER_HEIGHT * (1 - min(1.0, max(0.0, share))), 1)


def sparkline(values: Sequence[int], title: str) -> SafeString:
    """A line without axes; what it says is in its title."""
    most = max([*values, 1])
    step = SPARK_WIDTH / max(1, len(values) - 1)
    points = [
        (round(n * step, 1), round(SPARK_HEIGHT - 2 - (SPARK_HEIGHT - 4) * value / most, 1))
        for n, value in enumerate(values)
    ]
    line = " ".join(f"{x},{y}" for x, y in points)
    return format_html(
        '<svg class="dbqueue-spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" '
        'preserveAspectRatio="none" focusable="false"><title>{}</title>'
        '<polygon class="dbqueue-spark-area" points="0,{} {} {},{}"></polygon>'
        '<polyline class="dbqueue-spark-line" fill="none" points="{}"></polyline></svg>',
        *(SPARK_WIDTH, SPARK_HEIGHT, SPARK_WIDTH, SPARK_HEIGHT, title),
        *(SPARK_HEIGHT, line, SPARK_WIDTH, SPARK_HEIGHT, line),
    )


def linear(most: float, label: Callable[[float], str]) -> Axis:
    """From 0 to a round number above the largest value."""
    step = nice(max(most, 1) / 4)
    top = step * max(1, math.ceil(max(most, 1) / step))
    count = round(top / step)
    return Axis(0, top, [(step * n, label(step * n)) for n in range(count + 1)])


def logarithmic(
    values: Iterable[float], marks: Sequence[float], label: Callable[[float], str]
) -> Axis:
    """From the last of the ``marks`` that is not above the smallest value to the first one that is
    not below the largest."""
    known = [value for value in values if value > 0] or [marks[1]]
    low = max([mark for mark in marks[:-1] if mark <= min(known)] or marks[:1])
    high = min([mark for mark in marks if mark >= max(known) and mark > low] or marks[-1:])
    ticks = [(mark, label(mark)) for mark in marks if low <= mark <= high]
    return Axis(low, high, ticks, is_logarithmic=True)


def nice(step: float) -> float:
    """1, 2 or 5 times a power of ten, not below ``step``; whole numbers only."""
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    found = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999999)
    return max(1.0, found)


def bars(series: Sequence[Series], axis: Axis) -> SafeString:
    """Stacked, the first one at the bottom; those of the last point, which goes on, are paler."""
    marks, count = [], len(series[0].values)
    width = INNER_WIDTH / count
    fill = round(max(width - 0.6, 0.8), 1)
    for n in range(count):
        x, base = round(LEFT + n * width + 0.3, 1), 0.0
        paler = " dbqueue-unfinished" if n == count - 1 else ""
        for one in series:
            value = one.values[n] or 0
            if value:
                bottom = axis.position(base)
                height = round(max(THIN, bottom - axis.position(base + value)), 1)
                marks.append((f"{one.kind}{paler}", x, round(bottom - height, 1), fill, height))
            base += value
    pattern = '<rect class="dbqueue-{}" x="{}" y="{}" width="{}" height="{}"></rect>'
    return format_html_join("", pattern, marks)


def lines(series: Sequence[Series], axis: Axis) -> SafeString:
    """One line each, with gaps; a value between two gaps is a dot."""
    pattern = '<polyline class="dbqueue-{}" fill="none" points="{}"></polyline>'
    dot = '<circle class="dbqueue-{0}-dot" cx="{1}" cy="{2}" r="2.2"></circle>'
    long, short = [], []
    for one in series:
        width = INNER_WIDTH / len(one.values)
        for is_known, run in groupby(enumerate(one.values), key=lambda it: it[1] is not None):
            if not is_known:
                continue
            points = [
                (round(LEFT + (n + 0.5) * width, 1), axis.position(value or 0)) for n, value in run
            ]
            if len(points) > 1:
                long.append((one.kind, " ".join(f"{x},{y}" for x, y in points)))
            else:
                short.append((one.kind, *points[0]))
    return format_html_join("", pattern, long) + format_html_join("", dot, short)


@dataclass(frozen=True)
class Plot:
    """An axis, and the marks of some series along it."""

    axis: Axis
    marks: SafeString
    series: list[Series]


def chart(
    title: str, text: str, plot: Plot, labels: Sequence[str], hints: Sequence[str]
) -> SafeString:
    """A whole chart. ``labels`` are written under the points at which they begin, most are empty;
    ``hints`` are shown when the mouse is over a point; ``text`` is a summary."""
    width = INNER_WIDTH / max(1, len(hints))
    hint_areas = format_html_join(
        "",
        '<rect class="dbqueue-hint" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>',
        (
            (round(LEFT + n * width, 1), TOP, round(width, 1), INNER_HEIGHT, hint)
            for n, hint in enumerate(hints)
        ),
    )
    return format_html(
        '<svg class="dbqueue-chart" viewBox="0 0 {} {}" role="img" focusable="false">'
        "<title>{}</title><desc>{}</desc>{}{}{}{}</svg>",
        *(WIDTH, HEIGHT, title, text),
        *(_grid(plot.axis), _times(labels), plot.marks, hint_areas),
    )


def _grid(axis: Axis) -> SafeString:
    pattern = (
        '<line class="dbqueue-grid" x1="{0}" x2="{1}" y1="{2}" y2="{2}"></line>'
        '<text class="dbqueue-tick" x="{3}" y="{4}" text-anchor="end">{5}</text>'
    )
    ticks = [(axis.position(value), label) for value, label in axis.ticks]
    ends = LEFT, WIDTH - RIGHT
    return format_html_join(
        "", pattern, ((*ends, y, LEFT - 5, round(y + 4, 1), label) for y, label in ticks)
    )


def _times(labels: Sequence[str]) -> SafeString:
    """Where there is a label, it begins a new stretch of time."""
    width = INNER_WIDTH / len(labels)
    ticks = [(round(LEFT + n * width, 1), label) for n, label in enumerate(labels) if label]
    lines = format_html_join(
        "",
        '<line class="dbqueue-grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"></line>',
        ((x, TOP, HEIGHT - BOTTOM + 4) for x, _ in ticks),
    )
    texts = format_html_join(
        "",
        '<text class="dbqueue-tick" x="{}" y="{}" text-anchor="middle">{}</text>',
        ((min(x, WIDTH - LABEL_HALF), HEIGHT - 6, label) for x, label in ticks),
    )
    return lines + texts
