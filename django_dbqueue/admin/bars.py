"""Bars as inline SVG, as wide as their place: of minutes, of shares, of what is due when."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

LANE_HEIGHT = 100
BAR_WIDTH = 0.84  # of a minute
THIN = 2.5  # the least height of a bar, of 100: what is not nothing is seen
GAUGE_WIDTH, GAUGE_HEIGHT = 100, 6
STEP, DUE_HEIGHT, LEAST_DUE = 20, 44, 3


def lane(
    bands: Sequence[tuple[str, Sequence[float]]], marks: Sequence[tuple[int, str]], text: str
) -> SafeString:
    """Minutes side by side, the bands (class, values) one upon the other; a line at each mark
    (minute, class). ``text`` says what it shows."""
    minutes = len(bands[0][1]) if bands else 60
    most = max([*(sum(column) for column in zip(*(v for _, v in bands), strict=True)), 1])
    paths, base = [], [0.0] * minutes
    for kind, values in bands:
        path = ""
        for n, value in enumerate(values):
            if value <= 0:
                continue
            height = max(LANE_HEIGHT * value / most, THIN)
            top = max(0.0, LANE_HEIGHT - base[n] - height)
            path += f"M{n + 0.08:.2f},{top:.1f}h{BAR_WIDTH}v{height:.1f}h-{BAR_WIDTH}z"
            base[n] += height
        paths.append((kind, path))
    drawn = format_html_join("", '<path class="dbqueue-band-{}" d="{}"></path>', paths)
    lines = format_html_join(
        "",
        '<line class="dbqueue-mark dbqueue-mark-{}" x1="{}" x2="{}" y1="0" y2="100"></line>',
        ((kind, minute + 0.5, minute + 0.5) for minute, kind in marks),
    )
    return format_html(
        '<svg class="dbqueue-lane" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'focusable="false"><title>{}</title>{}{}</svg>',
        *(minutes, LANE_HEIGHT, text, drawn, lines),
    )


def gauge(share: float, kind: str = "") -> SafeString:
    """How much of something is used up; beyond 1 it is full. What it says stands next to it."""
    width = round(GAUGE_WIDTH * min(1.0, max(0.0, share)), 1)
    return format_html(
        '<svg class="dbqueue-gauge" viewBox="0 0 {0} {1}" preserveAspectRatio="none" '
        'aria-hidden="true" focusable="false"><rect class="dbqueue-gauge-all" width="{0}" '
        'height="{1}"></rect><rect class="dbqueue-gauge-used {2}" width="{3}" height="{1}"></rect>'
        "</svg>",
        *(GAUGE_WIDTH, GAUGE_HEIGHT, kind, width),
    )


@dataclass(frozen=True)
class Bar:
    """A stretch of time: how many there are, in words, and the list of these."""

    number: int
    words: str
    url: str
    is_cut: bool = False  # there are more


def histogram(bars: Sequence[Bar], name: str) -> SafeString:
    """Bars side by side that are links where they have a list."""
    most = max([*(bar.number for bar in bars), 1])
    drawn = format_html_join("", "{}", ((_bar(n, bar, most),) for n, bar in enumerate(bars)))
    return format_html(
        '<svg class="dbqueue-due" viewBox="0 0 {0} {1}" preserveAspectRatio="none" role="group" '
        'aria-label="{2}"><line class="dbqueue-grid" x1="0" x2="{0}" y1="{3}" y2="{3}"></line>{4}'
        "</svg>",
        *(STEP * len(bars), DUE_HEIGHT, name, DUE_HEIGHT - 0.5, drawn),
    )


def _bar(place: int, bar: Bar, most: int) -> SafeString:
    if not bar.number:
        return SafeString("")
    height = round(max(LEAST_DUE, (DUE_HEIGHT - 2) * bar.number / most), 1)
    whole = format_html(
        '<rect class="dbqueue-due-all" x="{}" y="0" width="{}" height="{}"></rect>'
        '<rect class="dbqueue-due-bar{}" x="{}" y="{}" width="{}" height="{}"></rect>',
        *(STEP * place, STEP, DUE_HEIGHT, " dbqueue-cut" * bar.is_cut),
        *(STEP * place + 2, round(DUE_HEIGHT - height, 1), STEP - 4, height),
    )
    if not bar.url:
        return format_html("<g><title>{}</title>{}</g>", bar.words, whole)
    pattern = '<a href="{}" aria-label="{}" data-key="due {}"><title>{}</title>{}</a>'
    return format_html(pattern, bar.url, bar.words, bar.url, bar.words, whole)
