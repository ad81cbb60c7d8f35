"""When delayed jobs are due, by looks at the next ones that are bounded whatever a table holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..fields import InstantField
from ..lifecycle.execute import rows
from ..lifecycle.table import Table
from ..states import PROMOTABLE

STRETCH_MAX = 1_000  # jobs of one stretch of time that are counted
# Of the next ones, among which the first of each queue is looked for: so few that PostgreSQL goes
# along the index, and does not sort all that are delayed.
LOOKED_AT_MAX = 200
FIVE_MINUTES, ONE_HOUR = timedelta(minutes=5), timedelta(hours=1)
IS_TIMED = f"{PROMOTABLE} AND retry_at IS NOT NULL"


@dataclass(frozen=True)
class Stretch:
    """Jobs that are due from ``begin`` on (None: what is due already, too) and before ``end``
    (None: whenever); with ``is_at_least`` there are more than were counted."""

    begin: datetime | None
    end: datetime | None
    number: int = 0

    @property
    def is_at_least(self) -> bool:
        return self.number > STRETCH_MAX


@dataclass(frozen=True)
class DueJobs:
    """The next hour in twelve stretches, the next day in 24, and what comes after that."""

    hour: list[Stretch]
    day: list[Stretch]
    later: Stretch

    @property
    def number(self) -> int:
        return sum(one.number for one in (*self.day, self.later))


def due_jobs(table: Table, now: datetime) -> DueJobs:
    """From a moment on by the database's clock; by one statement."""
    hour, day = stretches(now, FIVE_MINUTES, 12), stretches(now, ONE_HOUR, 24)
    wanted = [*hour, *day, Stretch(day[-1].end, None)]
    counts = _counted(table, wanted)
    found = [Stretch(one.begin, one.end, counts[n]) for n, one in enumerate(wanted)]
    return DueJobs(found[: len(hour)], found[len(hour) : -1], found[-1])


def stretches(now: datetime, length: timedelta, number: int) -> list[Stretch]:
    """They begin when the clock shows a multiple of their length, the first one before now."""
    since_midnight = now - now.replace(hour=0, minute=0, second=0, microsecond=0)
    begin = now - since_midnight % length
    ends = [begin + length * (n + 1) for n in range(number)]
    return [Stretch(None if n == 0 else ends[n - 1], end) for n, end in enumerate(ends)]


def _counted(table: Table, wanted: Sequence[Stretch]) -> dict[int, int]:
    parts, params = [], list[Any]()
    for n, one in enumerate(wanted):
        bounds = list(_bounds(table, one))
        where = " AND ".join([IS_TIMED, *(condition for condition, _ in bounds)])
        parts.append(
            f"SELECT {n}, COUNT(*) FROM (SELECT 1 AS one FROM {table.name} WHERE {where} "
            f"ORDER BY retry_at LIMIT {STRETCH_MAX + 1}) AS part{n}"
        )
        params += [moment for _, moment in bounds]
    found = rows(table.connection, " UNION ALL ".join(parts), params)
    return {int(n): int(count) for n, count in found}


def _bounds(table: Table, one: Stretch) -> Iterator[tuple[str, Any]]:
    for condition, moment in (("retry_at >= %s", one.begin), ("retry_at < %s", one.end)):
        if moment is not None:
            yield condition, InstantField().get_db_prep_value(moment, table.connection)


def next_by_queue(table: Table, now: datetime) -> dict[str, float]:
    """Seconds until the first job of each queue is due that is not yet, as far as it is among the
    next 200 of the table."""
    until = table.dialect.seconds_until("MIN(retry_at)")
    moment = InstantField().get_db_prep_value(now, table.connection)
    sql = (
        f"SELECT queue, {until} FROM (SELECT queue, retry_at FROM {table.name} WHERE {IS_TIMED} "
        f"AND retry_at > %s ORDER BY retry_at LIMIT {LOOKED_AT_MAX}) AS capped GROUP BY queue"
    )
    found = rows(table.connection, sql, [moment])
    return {str(queue): max(0.0, float(seconds)) for queue, seconds in found if seconds is not None}
