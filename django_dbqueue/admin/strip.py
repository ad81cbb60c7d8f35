"""The last hour as three rows of bars, minute by minute, with what was done meanwhile."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.safestring import SafeString

from ..monitor.last_hour import LANES, MINUTES, LastHour, Mark
from .bars import lane
from .formatting import clock, number, rounded

TITLES = {"in": "Came in", "done": "Done", "failed": "Failed attempts"}
MARKS_MAX = 8  # that are told
SIGNS = {"start": "▲", "stop": "■", "code": "◆", "pause": "❚❚", "resume": "▶"}
LABELLED_EVERY = 15  # minutes


@dataclass(frozen=True)
class Lane:
    """``total`` of the hour, and ``most`` of a minute."""

    title: str
    total: str
    most: str
    picture: SafeString
    is_bad: bool


@dataclass(frozen=True)
class Told:
    sign: str
    kind: str
    when: str
    text: str


@dataclass(frozen=True)
class Strip:
    """``times``: what is written below; ``legend``: the bands, by name and class."""

    lanes: list[Lane]
    times: list[str]
    legend: list[tuple[str, str]]
    marks: list[Told]
    more: int  # marks that are not told

    @property
    def is_empty(self) -> bool:
        return not self.legend


def strip(found: LastHour, now: datetime) -> Strip:
    begin = now - timedelta(minutes=MINUTES)
    times = [clock(begin + timedelta(minutes=n)) for n in range(0, MINUTES + 1, LABELLED_EVERY)]
    legend = [(band.name, str(n)) for n, band in enumerate(found.bands)]
    marks = found.marks
    return Strip(
        lanes=[_lane(found, name) for name in LANES],
        times=times,
        legend=legend,
        marks=[_told(mark, now) for mark in marks[:MARKS_MAX]],
        more=len(marks[MARKS_MAX:]),
    )


def _lane(found: LastHour, name: str) -> Lane:
    bands = [(str(n), band.values[name]) for n, band in enumerate(found.bands)]
    sums = [sum(column) for column in zip(*(values for _, values in bands), strict=True)]
    total, most = found.total(name), max(sums, default=0.0)
    about = "about " if name == "in" else ""
    title = TITLES[name]
    text = f"{title} in the last hour: {about}{total:,.0f}, at most {rounded(most)} in a minute"
    marks = Counter((mark.minute, mark.kind) for mark in found.marks)
    return Lane(
        title=title,
        total=about + number(round(total)),
        most=f"{rounded(most)}/min",
        picture=lane(bands, list(marks), text),
        is_bad=name == "failed" and total > 0,
    )


def _told(mark: Mark, now: datetime) -> Told:
    when = clock(now - timedelta(seconds=mark.seconds))
    return Told(SIGNS[mark.kind], mark.kind, when, mark.text)
