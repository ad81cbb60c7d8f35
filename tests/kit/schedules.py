"""Schedules for tests, and when they should tick, worked out without the code under test."""

from collections import defaultdict
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django_dbqueue.schedules.models import Schedule, Tick, as_utc
from django_dbqueue.schedules.scheduler import Scheduler
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

GRID = timedelta(minutes=15)
START = datetime(2031, 1, 15, 12, tzinfo=UTC)  # a Wednesday


class WallClock:
    """What a clock in a zone shows at each quarter of an hour; nothing else is known of it."""

    def __init__(self, zone: str, start: datetime, days: int) -> None:
        here = ZoneInfo(zone)
        self.shown: list[tuple[datetime, datetime]] = []
        self.instants: defaultdict[datetime, list[datetime]] = defaultdict(list)
        for number in range(1, days * 96 + 1):
            instant = start + number * GRID
            wall = instant.astimezone(here).replace(tzinfo=None)
            self.shown.append((instant, wall))
            self.instants[wall].append(instant)

    def each_once(self, times: Collection[tuple[int, int]]) -> list[datetime]:
        """Times of day, (hour, minute): the first instant that shows it, or the first after it."""
        found, end = set(), self.shown[-1][1]
        day = self.shown[0][1].replace(hour=0, minute=0)
        while day <= end:
            for hour, minute in times:
                wall = day.replace(hour=hour, minute=minute)
                if not self.shown[0][1] <= wall <= end:
                    continue
                same = self.instants.get(wall)
                found.add(same[0] if same else self._first_after(wall))
            day += timedelta(days=1)
        return sorted(found)

    def each_hour(self, minutes: Collection[int]) -> list[datetime]:
        """Every instant at which the clock shows one of these minutes."""
        return [instant for instant, wall in self.shown if wall.minute in minutes]

    def _first_after(self, wall: datetime) -> datetime:
        return next(instant for instant, shown in self.shown if shown > wall)


def scheduled(name: str = "nightly", timing: str = "0 3 * * *", **columns: Any) -> Schedule:
    """A schedule of notes that say its name, stored."""
    given = {"target": "queueapp.Note", "arguments": {"text": name}, "time_zone": "UTC"} | columns
    schedule = Schedule(name=name, timing=timing, **given)
    schedule.full_clean()
    schedule.save()
    return schedule


def again(schedule: Schedule) -> Schedule:
    return Schedule.objects.get(pk=schedule.pk)


def ticks_of(schedule: Schedule) -> list[datetime]:
    rows = Tick.objects.filter(schedule=schedule).order_by("tick")
    return [as_utc(tick) for tick in rows.values_list("tick", flat=True)]


def notes_of(schedule: Schedule) -> list[str]:
    """What is said of its ticks, in their order; of those that were enqueued plainly, ''."""
    rows = Tick.objects.filter(schedule=schedule).order_by("tick")
    return list(rows.values_list("note", flat=True))


def look_until(scheduler: Scheduler, condition: Callable[[], Any]) -> None:
    """Have it look again and again."""

    def look() -> Any:
        scheduler.write()
        return condition()

    wait_until(look, every=0.1)


class Greeter:
    """A task."""

    def enqueue(self) -> None:
        Note.objects.create(text="hello")


greeter = Greeter()
