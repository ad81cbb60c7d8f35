"""Each tick once: two schedulers for 400 virtual days, and killed again and again."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.db.utils import Error

from django_dbqueue.schedules import ticking
from django_dbqueue.schedules.firing import run_due
from django_dbqueue.schedules.models import Tick
from django_dbqueue.testing import virtual_clock
from tests.kit.schedules import START, WallClock, notes_of, scheduled, ticks_of
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]

DAYS = 400
# Each is in a gap on one day, and comes twice on another.
TIMES = {
    ("Europe/Berlin", "30 2 * * 0"): [(2, 30)],
    ("America/New_York", "15,45 1,2 * * 0"): [(h, m) for h in (1, 2) for m in (15, 45)],
    ("Australia/Lord_Howe", "45 1,2 * * 0"): [(1, 45), (2, 45)],
    ("Australia/Lord_Howe", "0 2 * * *"): [(2, 0)],
}
WRITES_MAX = 20


class Killed(BaseException):
    """As a signal would end the process: nothing between is told of it."""


class Deadly:
    """In every third look it kills who writes, before or after one of the first statements."""

    def __init__(self, seed):
        self.random, self.kills, self.left = random.Random(seed), 0, -1

    def look(self):
        self.left = self.random.choice((self.random.randint(1, WRITES_MAX), -1, -1))

    def __call__(self, execute, sql, *rest):
        if not sql.startswith(("INSERT", "UPDATE")):
            return execute(sql, *rest)
        self.left -= 1
        is_last, is_after = self.left == 0, self.random.random() < 0.5
        if is_last and not is_after:
            self.die()
        result = execute(sql, *rest)
        if is_last:
            self.die()
        return result

    def die(self):
        self.kills += 1
        raise Killed


def run_as(deadly, now):
    """One look of one scheduler, at a time; another process may have a lock, or it is killed."""
    deadly.look()
    try:
        with virtual_clock(now), connection.execute_wrapper(deadly), suppress(Error, Killed):
            run_due()
    finally:
        connection.close()


def has_looked(now):
    """One look that nobody kills; what those who were killed have locked is free soon."""
    try:
        with virtual_clock(now):
            run_due()
    except Error:
        connection.close()
        return False
    return True


def expected(zone, timing):
    found = WallClock(zone, START, DAYS).each_once(TIMES[zone, timing])
    is_sundays = timing.endswith("0")
    return [t for t in found if not is_sundays or t.astimezone(ZoneInfo(zone)).isoweekday() == 7]


def test_two_schedulers_that_are_killed_enqueue_each_tick_once(monkeypatch):
    monkeypatch.setattr(ticking, "KEPT_TICKS", 100_000)
    policy = {"missed": "all", "catch_up_within": 30 * 86400}
    with virtual_clock(START):
        wanted = {
            scheduled(f"{zone} {timing}", timing, time_zone=zone, **policy): expected(zone, timing)
            for zone, timing in TIMES
        }
        every = timedelta(hours=31)
        ticks = [START.replace(hour=0) + n * every for n in range(DAYS * 4)]
        origin = scheduled("real seconds", "every 31 h", starts_at=ticks[0], **policy)
    end = START + timedelta(days=DAYS)
    wanted[origin] = [tick for tick in ticks if START < tick <= end]
    schedulers, steps = (Deadly(1), Deadly(2)), random.Random(3)
    now = done = START
    with ThreadPoolExecutor(2) as threads:
        while now < end:
            now = min(end, now + timedelta(hours=steps.uniform(12, 240)))
            # Mostly one is faster; now and then both look at once.
            who = steps.choice((schedulers, schedulers[:1], schedulers[1:]))
            list(threads.map(run_as, who, [now] * len(who)))
            if now - done > timedelta(days=12):
                # Else kills in a row might make ticks late for good.
                wait_until(partial(has_looked, now))
                done = now
    wait_until(partial(has_looked, end))
    print("kills:", *(one.kills for one in schedulers))
    assert all(one.kills > 0 for one in schedulers)
    for schedule, its in wanted.items():
        assert ticks_of(schedule) == its, schedule
        assert set(notes_of(schedule)) == {""}
    jobs = Counter(Tick.objects.values_list("job", flat=True))
    assert set(jobs.values()) == {1}
    assert jobs.keys() == {str(pk) for pk in Note.objects.values_list("pk", flat=True)}
