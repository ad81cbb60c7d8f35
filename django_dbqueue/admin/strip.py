"""The last hour as three rows of bars, minute by minute, with what was done meanwhile."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ..monitor.last_hour import LANES, MINUTES, LastHour, Mark
from .bars import lane
from .formatting import clock, number, rounded

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
    told = number(round(total))
    if name == "in":
        told = _("about %(number)s") % {"number": told}
    title, text = _titles(name)
    text %= {"number": told, "most": rounded(most)}
    marks = Counter((mark.minute, mark.kind) for mark in found.marks)
    return Lane(
        title=title,
        total=told,
        most=_("%(number)s/min") % {"number": rounded(most)},
        picture=lane(bands, list(marks), text),
        is_bad=name == "failed" and total > 0,
    )


def _titles(name: str) -> tuple[str, str]:
    """And what its picture says."""
    if name == "in":
        return (
            pgettext("jobs in the last hour", "Came in"),
            _("Came in in the last hour: %(number)s, at most %(most)s in a minute"),
        )
    if name == "done":
        return (
            pgettext("jobs in the last hour", "Done"),
            _("Done in the last hour: %(number)s, at most %(most)s in a minute"),
        )
    return (
        _("Failed attempts"),
        _("Failed attempts in the last hour: %(number)s, at most %(most)s in a minute"),
    )


def _told(mark: Mark, now: datetime) -> Told:
    when = clock(now - timedelta(seconds=mark.seconds))
    return Told(SIGNS[mark.kind], mark.kind, when, mark.text)
