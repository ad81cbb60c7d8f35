"""The clock of the database was ahead, and is set back: schedules go on at once."""

from datetime import timedelta

import pytest
from django.db import connection

from django_dbqueue.schedules import firing
from django_dbqueue.schedules.firing import run_due
from django_dbqueue.schedules.models import Schedule, as_utc
from django_dbqueue.schedules.replan import replan
from django_dbqueue.schedules.ticking import KEPT_TICKS
from tests.kit.schedules import START, again, look_until, scheduled, ticks_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

MINUTE, YEAR = 60, 365 * 86400


def ahead_for_a_look(clock):
    """It ticks by the wrong clock, which is right again a minute later than it was."""
    clock.move(YEAR)
    run_due()
    clock.move(MINUTE - YEAR)


def test_ticks_go_on_and_none_comes_twice(clock):
    schedule = scheduled(timing="every 1 min")
    for _ in range(3):
        clock.move(MINUTE)
        run_due()
    ahead_for_a_look(clock)
    replan("default")
    for _ in range(3):
        run_due()
        clock.move(MINUTE)
    ticks = ticks_of(schedule)
    assert ticks[:3] == [START + timedelta(minutes=n) for n in (1, 2, 3)]
    assert {START + timedelta(minutes=n) for n in (5, 6)} <= {*ticks}
    assert len(ticks) == again(schedule).count == len({*ticks})
    assert Note.objects.count() == again(schedule).count - 1, "one row is that of missed ticks"


def test_of_many_ticks_the_newest_ones_do_not_come_twice(clock):
    scheduled(timing="every 1 s")
    for _ in range(3 * KEPT_TICKS):
        clock.move(1)
        run_due()
    clock.move(-KEPT_TICKS)
    replan("default")
    for _ in range(KEPT_TICKS):
        run_due()
        clock.move(1)
    run_due()
    assert Note.objects.count() == 3 * KEPT_TICKS


def test_a_tick_that_has_yet_to_come_has_not_failed(clock):
    schedule = scheduled(timing="every 1 h", missed="skip")
    rows = Schedule.objects.filter(pk=schedule.pk)
    rows.update(target="shop.Gone")
    clock.move(60 * MINUTE)
    run_due()
    clock.move(-90 * MINUTE)
    replan("default")
    rows.update(target="queueapp.Note")
    clock.move(315 * MINUTE)
    run_due()
    assert not Note.objects.exists(), "nobody looked in time"


def test_what_is_planned_rightly_or_paused_is_left_as_it_is(clock):
    right, paused = scheduled("a", "0 3 * * *"), scheduled("b", "every 1 min")
    again(paused).pause()
    writes = []

    def note(execute, sql, *rest):
        writes.extend([sql] if sql.startswith("UPDATE") else [])
        return execute(sql, *rest)

    before = Schedule.objects.order_by("pk").values()
    was = list(before)
    with connection.execute_wrapper(note):
        replan("default")
    assert list(before.all()) == was
    assert len(writes) == 1, "of what is tried again much too late"
    assert as_utc(again(right).next_tick) == START.replace(day=16, hour=3)


def test_what_is_to_be_tried_again_is_not_put_off_for_longer_than_ever(clock):
    soon, late = scheduled("soon", "every 1 min"), scheduled("late", "every 1 min")
    Schedule.objects.update(target="shop.Gone")
    clock.move(MINUTE)
    run_due()
    Schedule.objects.filter(pk=late.pk).update(next_at=START + timedelta(days=365))
    replan("default")
    retry = START + timedelta(seconds=MINUTE + firing.RETRY_SECONDS)
    assert as_utc(again(soon).next_at) == retry
    assert as_utc(again(late).next_at) == START + timedelta(minutes=1)


def test_one_that_cannot_be_planned_is_said_to_be_broken_and_keeps_no_other(clock, caplog):
    broken, whole = scheduled("a", "every 1 min"), scheduled("b", "every 1 min")
    far = START + timedelta(days=365)
    Schedule.objects.update(next_tick=far, next_at=far)
    Schedule.objects.filter(pk=broken.pk).update(timing="often")
    replan("default")
    assert "timing must be" in again(broken).error
    assert "schedule a: nothing enqueued: timing must be" in caplog.text
    assert as_utc(again(whole).next_tick) == START + timedelta(minutes=1)


@pytest.mark.process
def test_an_agent_notices_that_the_clock_was_set_back(clock, looking):
    schedule = scheduled(timing="every 1 min")
    look_until(looking, lambda: looking._is_planned)
    clock.move(YEAR)
    run_due()
    looking.write()
    clock.move(MINUTE - YEAR)
    look_until(looking, lambda: as_utc(again(schedule).next_tick) == START + timedelta(minutes=2))


@pytest.mark.process
def test_an_agent_that_starts_brings_forward_what_is_planned_too_late(clock, looking):
    schedule, far = scheduled(timing="every 1 min"), START + timedelta(days=365)
    Schedule.objects.update(next_tick=far, next_at=far)
    look_until(looking, lambda: as_utc(again(schedule).next_tick) == START + timedelta(minutes=1))


@pytest.mark.process
def test_a_clock_that_goes_back_by_a_few_seconds_is_nothing_to_do(clock, looking):
    scheduled(timing="every 1 h")
    look_until(looking, lambda: looking._is_planned)
    clock.move(-4)
    looking.write()
    assert looking._is_planned
    assert not looking._pid
