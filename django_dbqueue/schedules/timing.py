"""When a schedule ticks: intervals, which count real seconds, and cron expressions, which read the
clock of a time zone.

All instants are aware, and ticks are in whole seconds.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from django.utils.translation import gettext_lazy

from ..exceptions import shown
from .problems import wrong

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INTERVAL_DAYS_MAX = 3650
# Of a start: what is reckoned from it, in any time zone, is a date of Python's, too.
START_YEAR_MIN, START_YEAR_MAX = 1900, 9900
CRON_CHARS_MAX = 200
CRON_FIELDS = 5
HOURS = 24  # of a day, all of which an expression may name
SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
EVERY = re.compile(r"every\s+(\d{1,9})\s*(s|min|h|d)", re.IGNORECASE)
NO_CRONSIM = gettext_lazy(
    "timing: cron expressions need the package cronsim: install django-dbqueue[cron]"
)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
# How far back the latest tick is looked for first; then twice as far, and so on.
LOOK_BACK = timedelta(minutes=1)


class Timing(Protocol):
    """The ticks of one schedule."""

    def after(self, instant: datetime) -> Iterator[datetime]:
        """Its ticks in UTC, later than this, in their order; it may have no end."""


@dataclass(frozen=True)
class Interval:
    """A tick each so many real seconds, counted from ``start``, or from 1970 in UTC."""

    every: timedelta
    start: datetime | None = None

    def after(self, instant: datetime) -> Iterator[datetime]:
        origin = self.start or EPOCH
        number = (instant - origin) // self.every + 1
        if self.start is not None:
            number = max(0, number)
        tick = origin + number * self.every
        while True:
            yield tick
            tick += self.every


@dataclass(frozen=True)
class Cron:
    """A cron expression of five fields, read in a time zone, from ``start`` on.

    One that names hours speaks of times of day: each is one tick on each day, also where the
    clock is set back, and where it is set forward the first moment after the gap does for all
    times in it. One for every hour goes by the clock as it shows, through both hours of the same
    name.
    """

    expression: str
    zone: ZoneInfo
    start: datetime | None = None

    def after(self, instant: datetime) -> Iterator[datetime]:
        instant = instant.replace(microsecond=0)
        if self.start is not None:
            instant = max(instant, self.start - SECOND)
        ticks = self._hourly(instant) if self._is_hourly else self._daily(instant)
        last = instant
        for tick in ticks:
            if tick > last:
                yield tick
                last = tick

    @cached_property
    def _is_hourly(self) -> bool:
        return len(_cronsim(self.expression, EPOCH).hours) == HOURS

    def _hourly(self, instant: datetime) -> Iterator[datetime]:
        """As the clock shows: by one offset from UTC, until that changes, and then by the next."""
        while True:
            offset = _offset(instant, self.zone)
            sim = _cronsim(self.expression, (instant + offset).replace(tzinfo=None))
            while (wall := next(sim, None)) is not None:
                tick = wall.replace(tzinfo=UTC) - offset
                if _offset(tick, self.zone) != offset:
                    # The second before: the change itself may be a tick.
                    instant = _change(instant, tick, self.zone) - SECOND
                    break
                yield tick
                instant = tick
            else:
                return

    def _daily(self, instant: datetime) -> Iterator[datetime]:
        """The clock's times, each of which is an instant: where it comes twice, the first one."""
        naive = instant.astimezone(self.zone).replace(tzinfo=None, fold=0)
        sim = _cronsim(self.expression, naive)
        while (wall := next(sim, None)) is not None:
            yield _instant(wall, self.zone)


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    """The offset in force right after an instant, a second before which another may have been."""
    return (instant + SECOND).astimezone(zone).utcoffset() or timedelta(0)


def _change(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """When the offset changes between two instants."""
    offset = _offset(before, zone)
    while after - before > SECOND:
        middle = before + (after - before) // (2 * SECOND) * SECOND
        if _offset(middle, zone) == offset:
            before = middle
        else:
            after = middle
    return after + SECOND


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Of a clock's time, the first instant at which it shows that, or after the gap it fell in."""
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    while instant.astimezone(zone).replace(tzinfo=None) != wall:
        wall += MINUTE
        instant = wall.replace(tzinfo=zone).astimezone(UTC)
    return instant


def _cronsim(expression: str, start: datetime) -> Any:
    """Raises ``ValidationError`` where the expression means nothing, or cronsim is missing."""
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415
    except ImportError:
        raise wrong("timing", NO_CRONSIM) from None
    try:
        return CronSim(expression, start)
    except CronSimError as error:
        text = gettext_lazy("timing: %(given)s is no cron expression: %(why)s")
        raise wrong("timing", text, given=shown(expression), why=error) from None


def zone_of(name: str) -> ZoneInfo:
    """``ValidationError`` where no time zone has this name."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        text = gettext_lazy("time_zone must be an IANA name, such as Europe/Berlin, not %(given)s")
        raise wrong("time_zone", text, given=shown(name)) from None


@lru_cache(maxsize=1000)  # mostly the same few at every tick
def parse(timing: str, zone: str = "UTC", start: datetime | None = None) -> Timing:
    """Read "every 10 s" or "0 3 * * 1-5"; ``ValidationError`` names the field and the limit."""
    if every := EVERY.fullmatch(timing.strip()):
        return Interval(_interval(int(every[1]) * SECONDS[every[2].lower()]), start)
    fields = timing.split()
    if len(fields) != CRON_FIELDS or len(timing) > CRON_CHARS_MAX:
        text = gettext_lazy(
            "timing must be 'every N s', min, h or d, or a cron expression of %(fields)s fields "
            "and at most %(most)s characters, not %(given)s"
        )
        given = {"fields": CRON_FIELDS, "most": CRON_CHARS_MAX, "given": shown(timing)}
        raise wrong("timing", text, **given)
    cron = Cron(" ".join(fields), zone_of(zone), start)
    if next(replace(cron, start=None).after(start or EPOCH), None) is None:
        raise wrong("timing", gettext_lazy("timing: %(given)s never comes"), given=shown(timing))
    return cron


def _interval(seconds: int) -> timedelta:
    if not 1 <= seconds <= INTERVAL_DAYS_MAX * 86400:
        text = gettext_lazy("timing: an interval is at least 1 s and at most %(days)s days")
        raise wrong("timing", text, days=INTERVAL_DAYS_MAX)
    return timedelta(seconds=seconds)


def check_start(start: datetime) -> datetime:
    if START_YEAR_MIN <= start.year <= START_YEAR_MAX:
        return start
    text = gettext_lazy("starts_at must be in the years %(least)s to %(most)s, not in %(given)s")
    given = {"least": START_YEAR_MIN, "most": START_YEAR_MAX, "given": start.year}
    raise wrong("starts_at", text, **given)


def written(every: timedelta) -> str:
    """An interval as ``parse`` reads it; ``ValidationError`` where it is not of whole seconds."""
    seconds = every // SECOND
    if every % SECOND:
        text = gettext_lazy("timing: an interval is whole seconds, not %(given)s")
        raise wrong("timing", text, given=every)
    unit = next(unit for unit in reversed(SECONDS) if not seconds % SECONDS[unit] or unit == "s")
    return f"every {seconds // SECONDS[unit]} {unit}"


def newest(timing: Timing, since: datetime, until: datetime, most: int) -> list[datetime]:
    """Of the ticks from ``since`` to ``until``, both included, the last ``most`` ones."""
    if isinstance(timing, Interval) and since <= until:
        # No more than there are: so many long intervals ago there was no year.
        most = min(most, (until - since) // timing.every + 1)
        since = max(since, until - most * timing.every)
    ticks = takewhile(lambda tick: tick <= until, timing.after(since - SECOND))
    return list(deque((tick for tick in ticks if tick >= since), maxlen=most))


def latest(timing: Timing, since: datetime, until: datetime) -> datetime | None:
    """The last tick from ``since`` to ``until``."""
    span = LOOK_BACK
    while True:
        begin = max(since, until - span)
        if found := newest(timing, begin, until, 1):
            return found[0]
        if begin == since:
            return None
        span *= 2
