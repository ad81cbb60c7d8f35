"""The rows of the table of queues on the first page."""

from dataclasses import dataclass, replace
from math import isinf
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..fields import check_name
from ..metrics.numbers import Count
from ..metrics.time_series import Quantiles
from ..monitor.alerts import pause_with_scope
from ..monitor.many_queues import OtherQueues
from ..monitor.overview import Overview, QueueOverview
from ..states import Status
from ..texts.wording import duration, state_word
from . import plots
from .bars import gauge
from .databases import query_of
from .formatting import number, percent
from .pages import list_url, page_url
from .svg import sparkline

SHOWN = (Status.READY, Status.DELAYED, Status.CLAIMED, Status.BURIED)
NOT_KNOWN = gettext_lazy("There may be more: a worker has not counted them yet.")


@dataclass(frozen=True)
class Cell:
    """A number, why it is not exact, the list of the jobs that it counts, how old it is, and what
    is said below. ``name`` is that of the state, ``word`` what people read."""

    name: str
    word: str
    text: str
    title: str
    url: str
    age: str = ""
    below: str = ""


@dataclass(frozen=True)
class Row:
    """A queue as the page shows it; '' is what is not known, or must not be done."""

    queue: QueueOverview
    cells: list[Cell]
    oldest: str
    target: str
    age: SafeString | str
    is_late: bool
    waited: str
    ran: str
    rate_in: str
    rate_out: str
    failed: str
    spark: SafeString
    charts_url: str
    pause_url: str
    paused: str
    filled: str  # how full a bounded queue is

    @property
    def done(self) -> str:
        return number(self.queue.hour.completed)

    @property
    def workers(self) -> int:
        return len(self.queue.workers)


@dataclass(frozen=True)
class Group:
    """A queue table with its queues, or why it cannot be asked."""

    label: str
    title: str
    url: str
    rows: list[Row]
    others: "Others | None"
    problem: str

    @property
    def is_idle(self) -> bool:
        return not self.problem and not self.others and all(row.queue.is_idle for row in self.rows)


@dataclass(frozen=True)
class Others:
    """The queues of a table that are not shown, in one line."""

    name: str
    cells: list[Cell]
    oldest: str
    rate_out: str
    done: str
    failed: str
    is_paused: bool


def groups(found: Overview, site: AdminSite, request: HttpRequest) -> list[Group]:
    """The queue tables that have a queue to show, or cannot be asked."""
    by_table: dict[str, list[QueueOverview]] = {
        label: [] for label in found.problems if " " not in label
    }
    for one in found.queues:
        by_table.setdefault(one.title, []).append(one)
    places = {label: label.partition("@") for label in by_table}
    models = {label: apps.get_model(place[0]) for label, place in places.items()}
    return [
        Group(
            label=label,
            title=str(models[label]._meta.verbose_name_plural),
            url=list_url(site, request, models[label], **query_of(models[label], places[label][2])),
            rows=[_row(one, site, request) for one in queues],
            others=next((_others(one) for one in found.others if one.title == label), None),
            problem=found.problems.get(label, ""),
        )
        for label, queues in by_table.items()
    ]


def _others(one: OtherQueues) -> Others:
    attempts = one.completed + one.failed
    return Others(
        name=one.named,
        cells=[_plain_cell(one.counts[status], status) for status in SHOWN],
        oldest="" if one.oldest_seconds is None else duration(max(0.0, one.oldest_seconds)),
        rate_out=number(one.rate_out),
        done=number(one.completed),
        failed=percent(one.failed / attempts) if attempts else "",
        is_paused=one.is_paused,
    )


def _row(one: QueueOverview, site: AdminSite, request: HttpRequest) -> Row:
    hour, query = one.hour, {"table": one.title, "queue": one.queue}
    title = _("Charts of %(queue)s: %(number)s done in the last hour")
    title %= {"queue": one.queue, "number": number(hour.completed)}
    target, seconds = one.late_after, max(0.0, one.oldest_seconds or 0.0)
    is_late = seconds > target and one.paused is None
    try:
        check_name(one.queue, "queue")
        pause_url = page_url(site, "dbqueue_queue_pause", **query)
    except ValidationError:  # edited by hand into no name: it cannot be paused
        pause_url = ""
    return Row(
        queue=one,
        cells=[_cell(one, status, site, request) for status in SHOWN],
        oldest="" if one.oldest_seconds is None else duration(seconds),
        target=duration(target),
        age="" if not seconds else gauge(seconds / (target or 1), "dbqueue-full" * is_late),
        is_late=is_late,
        waited=_slowest(one.waited),
        ran=_slowest(one.ran),
        rate_in="" if hour.rate_in is None else number(hour.rate_in),
        rate_out=number(hour.rate_out),
        failed="" if hour.failure_share is None else percent(hour.failure_share),
        spark=sparkline(hour.per_minute, title),
        charts_url=page_url(site, "dbqueue_queue_charts", **query, span="hour"),
        pause_url=pause_url,
        paused=pause_with_scope(one.paused) if one.paused else "",
        filled=_filled(one),
    )


def _filled(one: QueueOverview) -> str:
    if one.max_length is None:
        return ""
    return _("holds %(held)s of %(most)s") % {"held": one.held, "most": number(one.max_length)}


def _slowest(times: Quantiles | None) -> str:
    """What 95 of 100 did not exceed."""
    return "" if times is None else plots.bound(times.p95)


def _cell(one: QueueOverview, status: Status, site: AdminSite, request: HttpRequest) -> Cell:
    counted = one.count(status)
    url = jobs_url(one, status, site, request) if counted.number else ""
    return replace(_plain_cell(counted, status), url=url, below=_below(one, status))


def _plain_cell(counted: Count, status: Status) -> Cell:
    text = "?" if counted.is_at_least and not counted.number else counted.text
    title = str(NOT_KNOWN) if counted.is_at_least else ""
    return Cell(status.label, state_word(status.label), text, title, "", counted.age)


def jobs_url(one: QueueOverview, status: Status, site: AdminSite, request: HttpRequest) -> str:
    """The list of the jobs of a queue in a state."""
    model = apps.get_model(one.table)
    query: dict[str, Any] = {"state": status.value, "queue": one.queue}
    return list_url(site, request, model, **query, **query_of(model, one.database))


def _below(one: QueueOverview, status: Status) -> str:
    """When what waits is done, when the next one is due, how many slots are busy."""
    if status is Status.READY and one.drain_seconds is not None:
        if isinf(one.drain_seconds):
            return _("more come than go")
        return _("done in %(time)s") % {"time": duration(one.drain_seconds)}
    if status is Status.DELAYED and one.next_seconds is not None:
        return _("next in %(time)s") % {"time": duration(one.next_seconds)}
    if status is Status.CLAIMED and one.slots and (one.busy or one.counts.get(status)):
        text = ngettext("%(busy)s of %(all)s slots", "%(busy)s of %(all)s slots", one.slots)
        return text % {"busy": number(one.busy), "all": number(one.slots)}
    return ""
