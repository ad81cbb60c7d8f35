"""What runs now, and what is due next, as the first page shows them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from ..metrics.due import STRETCH_MAX, Stretch
from ..monitor.glance import Glance
from ..monitor.running import Slot
from ..states import Status
from ..texts.wording import duration
from .bars import Bar, gauge, histogram
from .databases import query_of
from .formatting import clock, number
from .pages import job_url, list_url

SHOWN_MAX = 12  # jobs that run
NEARLY = 0.8  # of its time to run
SEPARATOR = "@"


@dataclass(frozen=True)
class RunningRow:
    job: str
    url: str
    queue: str
    worker: str
    picture: SafeString
    text: str
    is_late: bool


def running_rows(
    slots: Sequence[Slot], site: AdminSite, request: HttpRequest
) -> Iterator[RunningRow]:
    for slot in slots[:SHOWN_MAX]:
        text = "" if slot.seconds is None else duration(slot.seconds)
        if slot.limit:
            text = _("%(time)s of %(limit)s") % {"time": text, "limit": duration(slot.limit)}
        kind = "dbqueue-full" if slot.share >= 1 else "dbqueue-nearly" * (slot.share >= NEARLY)
        yield RunningRow(
            job=slot.job,
            url=job_url(site, request, slot.job, slot.worker.database),
            queue=slot.queue or "",
            worker=slot.worker.name,
            picture=gauge(slot.share, kind),
            text=text,
            is_late=slot.share >= 1,
        )


@dataclass(frozen=True)
class DueRow:
    """A queue table's delayed jobs: of the next hour and the next day, with the times below."""

    name: str
    url: str
    hour: SafeString
    hour_times: list[str]
    hour_number: str
    day: SafeString
    day_times: list[str]
    day_number: str
    later: str


def due_rows(found: Glance, site: AdminSite, request: HttpRequest) -> Iterator[DueRow]:
    for title, due in found.due.items():
        label, _at, alias = title.partition(SEPARATOR)
        model = apps.get_model(label)
        query: dict[str, Any] = {"state": Status.DELAYED.value, **query_of(model, alias)}
        whole = list_url(site, request, model, **query)
        name = str(capfirst(str(model._meta.verbose_name_plural)))
        jobs = {"jobs": name}
        yield DueRow(
            name=f"{name} ({alias})" if alias else name,
            url=whole,
            hour=histogram(_bars(due.hour, whole), _("%(jobs)s due in the next hour") % jobs),
            hour_times=_times(due.hour),
            hour_number=_summed(due.hour),
            day=histogram(_bars(due.day, whole), _("%(jobs)s due in the next day") % jobs),
            day_times=_times(due.day),
            day_number=_summed(due.day),
            later=_counted(due.later) if due.later.number else "",
        )


def _bars(stretches: Sequence[Stretch], url: str) -> list[Bar]:
    bars = []
    for one in stretches:
        bounds = {"retry_at__gte": one.begin, "retry_at__lt": one.end}
        query = "".join(f"&{name}={_text(at)}" for name, at in bounds.items() if at is not None)
        text = ngettext(
            "before %(end)s: %(number)s due", "before %(end)s: %(number)s due", one.number
        )
        if one.begin:
            text = ngettext(
                "%(begin)s to %(end)s: %(number)s due",
                "%(begin)s to %(end)s: %(number)s due",
                one.number,
            )
        words = text % {
            "begin": clock(one.begin) if one.begin else "",
            "end": clock(one.end) if one.end else "",
            "number": _counted(one),
        }
        number_shown = min(one.number, STRETCH_MAX)
        bars.append(Bar(number_shown, words, f"{url}{query}" if url else "", one.is_at_least))
    return bars


def _text(moment: Any) -> str:
    return str(moment.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _counted(one: Stretch) -> str:
    return number(min(one.number, STRETCH_MAX)) + "+" * one.is_at_least


def _summed(stretches: Sequence[Stretch]) -> str:
    total = sum(min(one.number, STRETCH_MAX) for one in stretches)
    return number(total) + "+" * any(one.is_at_least for one in stretches)


def _times(stretches: Sequence[Stretch]) -> list[str]:
    """Of the beginning, the middle and the end."""
    middle = stretches[len(stretches) // 2].begin
    end = stretches[-1].end
    return [
        pgettext("beginning of a span of time", "now"),
        clock(middle) if middle else "",
        clock(end) if end else "",
    ]
