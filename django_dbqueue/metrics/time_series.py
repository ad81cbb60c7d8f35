"""What happened in the queues, read from the table of minutes for charts and rates."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from django.db.models import F, Sum

from ..models import Minute
from ..models.minute import RAN, SPANS, SUMS, WAITED
from .recorder import this_minute

# By name: how many points, and the minutes of each.
CHARTED = {"hour": (60, 1), "day": (96, 15), "week": (84, 120)}
LATELY = 5  # minutes by which a rate is told


@dataclass(frozen=True)
class Quantiles:
    """Seconds that half, and 95 of 100, did not exceed: the end of the span in which that lies; of
    the last span, which has none, infinity."""

    p50: float
    p95: float


@dataclass(frozen=True)
class Point:
    """What happened from ``start`` on; the backlog is that of the last sample within, and ``peak``
    that of the largest."""

    start: datetime
    completed: int = 0
    failed: int = 0
    buried: int = 0
    backlog: int | None = None
    peak: int | None = None
    waited: Quantiles | None = None
    ran: Quantiles | None = None


@dataclass
class Hour:
    """The last hour of one queue; rates are per minute, of the last five."""

    completed: int = 0
    failed: int = 0
    buried: int = 0
    per_minute: list[int] = field(default_factory=lambda: [0] * 60)
    buried_per_minute: list[int] = field(default_factory=lambda: [0] * 60)
    failed_per_minute: list[int] = field(default_factory=lambda: [0] * 60)
    backlogs: dict[int, int] = field(default_factory=dict)

    @property
    def rate_out(self) -> float:
        """Completed, of whole minutes."""
        return _lately(self.per_minute)

    @property
    def rate_in(self) -> float | None:
        """What was completed and buried, and what the backlog grew by; None while that is not
        known. What a person cancelled or buried is as if it had not come in."""
        lately = sorted(minute for minute in self.backlogs if minute >= 60 - LATELY - 2)
        if len(lately) < 2:
            return None
        first, last = lately[0], lately[-1]
        growth = (self.backlogs[last] - self.backlogs[first]) / (last - first)
        return max(0.0, self.rate_out + _lately(self.buried_per_minute) + growth)

    @property
    def in_per_minute(self) -> list[float]:
        """Of each minute about what came in, as ``rate_in`` knows it: the mean of three minutes,
        for the backlog is counted at any moment of a minute."""
        growth = [0.0] * 60
        for first, last in pairwise(sorted(self.backlogs)):
            step = (self.backlogs[last] - self.backlogs[first]) / (last - first)
            growth[first + 1 : last + 1] = [step] * (last - first)
        summed = zip(self.per_minute, self.buried_per_minute, growth, strict=True)
        came = [done + buried + more for done, buried, more in summed]
        spans = (came[max(0, n - 1) : n + 2] for n in range(60))
        return [max(0.0, sum(span) / len(span)) for span in spans]

    @property
    def failure_share(self) -> float | None:
        attempts = self.completed + self.failed
        return self.failed / attempts if attempts else None


def _lately(per_minute: Sequence[int]) -> float:
    """By minute; the present one is not over."""
    return sum(per_minute[-LATELY - 1 : -1]) / LATELY


def last_hour(alias: str) -> dict[tuple[str, str], Hour]:
    """By queue table and queue; those in which nothing happened are not in it."""
    first = this_minute(alias) - 59
    rows = Minute.objects.using(alias).filter(minute__gte=first, minute__lt=first + 60)
    hours: dict[tuple[str, str], Hour] = defaultdict(Hour)
    for row in rows.values("job_table", "queue", "minute", "backlog", *SUMS):
        hour, position = hours[row["job_table"], row["queue"]], row["minute"] - first
        completed, failed, buried = (_whole(row[name]) or 0 for name in SUMS)
        hour.completed += completed
        hour.failed += failed
        hour.buried += buried
        hour.per_minute[position] = completed
        hour.buried_per_minute[position] = buried
        hour.failed_per_minute[position] = failed
        if (backlog := _whole(row["backlog"])) is not None:
            hour.backlogs[position] = backlog
    return dict(hours)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None  # SQLite keeps any text


def times_of_hour(alias: str) -> dict[tuple[str, str], tuple[Quantiles | None, Quantiles | None]]:
    """How long jobs waited, and ran, in the last hour, by queue table and queue."""
    first = this_minute(alias) - 59
    rows = Minute.objects.using(alias).filter(minute__gte=first, minute__lt=first + 60)
    sums = {f"sum_{name}": Sum(name) for name in (*WAITED, *RAN)}
    summed: Any = rows.values("job_table", "queue").annotate(**sums).order_by()
    return {
        (row["job_table"], row["queue"]): (_quantiles(row, WAITED), _quantiles(row, RAN))
        for row in summed
    }


def _quantiles(row: dict[str, Any], names: Sequence[str]) -> Quantiles | None:
    return quantiles([int(row[f"sum_{name}"]) for name in names])


def history(alias: str, job_table: str, queue: str | None, span: str) -> list[Point]:
    """The points of a chart, the oldest first and the last one unfinished; ``queue`` None = all
    queues of the table."""
    count, step = CHARTED[span]
    last = this_minute(alias) // step * step
    first = last - (count - 1) * step
    rows = Minute.objects.using(alias).filter(job_table=job_table, minute__gte=first)
    rows = rows if queue is None else rows.filter(queue=queue)
    sums = {f"sum_{name}": Sum(name) for name in (*SUMS, *WAITED, *RAN)}
    # A comparison of the rest of the division, which every database knows.
    by_start = rows.annotate(start=F("minute") - F("minute") % step).values("start")
    summed: Any = by_start.annotate(**sums).order_by("start")
    found = {row["start"]: row for row in summed}
    # The backlogs over all queues that were counted within each point, the oldest first.
    sampled = rows.filter(backlog__isnull=False).order_by("minute")
    samples: dict[int, list[int]] = defaultdict(list)
    for minute, backlog in sampled.values_list("minute").annotate(all=Sum("backlog")):
        samples[minute - minute % step].append(int(backlog))
    starts = range(first, last + step, step)
    return [_point(start, found.get(start), samples.get(start)) for start in starts]


def _point(start: int, row: dict[str, Any] | None, samples: list[int] | None) -> Point:
    at = datetime.fromtimestamp(start * 60, UTC)
    if row is None:
        return Point(at)
    completed, failed, buried = (int(row[f"sum_{name}"]) for name in SUMS)
    return Point(
        at,
        completed,
        failed,
        buried,
        backlog=samples[-1] if samples else None,
        peak=max(samples) if samples else None,
        waited=_quantiles(row, WAITED),
        ran=_quantiles(row, RAN),
    )


def quantiles(counts: Sequence[int]) -> Quantiles | None:
    """Of counts by span; None where nothing was counted."""
    if not sum(counts):
        return None
    return Quantiles(_quantile(counts, 0.5), _quantile(counts, 0.95))


def _quantile(counts: Sequence[int], share: float) -> float:
    """The end of the span that holds it."""
    wanted, below = share * sum(counts), 0
    for count, end in zip(counts, SPANS, strict=False):
        below += count
        if below >= wanted:
            return end
    return math.inf


def begin_of(end: float) -> float:
    """Where the span begins that ends there."""
    return max((one for one in SPANS if one < end), default=0.0)
