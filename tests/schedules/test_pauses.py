"""A pause and its end hold, whatever somebody else saves meanwhile."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction

from django_dbqueue.schedules.firing import run_due
from django_dbqueue.schedules.models import Schedule, as_utc
from django_dbqueue.testing import virtual_clock
from tests.kit.jobs import in_thread
from tests.kit.schedules import START, again, scheduled
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture(autouse=True)
def clock():
    with virtual_clock(START) as clock:
        yield clock


def paused():
    schedule = scheduled(timing="every 1 h")
    schedule.pause()
    return schedule


def ticks_after_an_hour(clock):
    clock.move(3600)
    run_due()
    return Note.objects.count()


def test_a_save_of_what_was_read_before_a_pause_does_not_end_it(clock):
    stale = again(scheduled(timing="every 1 h"))
    again(stale).pause()
    stale.arguments = {"text": "other"}
    stale.save()
    row = again(stale)
    assert (row.is_paused, row.next_tick, row.arguments) == (True, None, {"text": "other"})
    assert ticks_after_an_hour(clock) == 0


def test_a_save_of_what_was_read_before_it_was_resumed_does_not_pause_it(clock):
    stale = again(paused())
    again(stale).resume()
    stale.arguments = {"text": "other"}
    stale.save()
    assert not again(stale).is_paused
    assert ticks_after_an_hour(clock) == 1


def test_a_changed_timing_is_planned_as_others_have_paused_or_resumed_it(clock):
    stale = again(scheduled(timing="every 1 h"))
    again(stale).pause()
    stale.timing = "every 30 min"
    stale.save()
    row = again(stale)
    assert (row.is_paused, row.next_tick, row.timing) == (True, None, "every 30 min")
    stale = again(stale)
    again(stale).resume()
    stale.timing = "every 1 h"
    stale.save()
    assert not again(stale).is_paused
    assert as_utc(again(stale).next_tick) == START + timedelta(hours=1)


def test_who_pauses_or_resumes_what_was_read_long_ago_has_it_so(clock):
    schedule = paused()
    long_paused, running = again(schedule), again(schedule)
    running.resume()
    long_paused.pause()
    assert again(schedule).is_paused
    running.resume()
    assert as_utc(again(schedule).next_tick) == START + timedelta(hours=1)
    clock.move(3600)
    running.resume()
    run_due()
    assert Note.objects.count() == 1, "it was running, and is due as before"


def test_a_pause_that_is_set_and_saved_is_one(clock):
    schedule = again(scheduled(timing="every 1 h"))
    schedule.is_paused = True
    schedule.save()
    assert again(schedule).next_tick is None
    schedule.is_paused = False
    schedule.save()
    assert ticks_after_an_hour(clock) == 1


def test_who_pauses_or_resumes_what_was_read_long_ago_writes_nothing_else(clock):
    stale = again(scheduled(timing="every 1 h"))
    changed = again(stale)
    changed.timing, changed.arguments = "every 30 min", {"text": "other"}
    changed.save()
    for turn in (stale.pause, stale.resume, stale.resume):
        turn()
        row = again(stale)
        assert (row.timing, row.arguments) == ("every 30 min", {"text": "other"})
    assert as_utc(row.next_tick) == START + timedelta(minutes=30)


def test_who_pauses_or_resumes_keeps_what_was_assigned_and_is_not_saved_yet():
    schedule = again(scheduled(timing="every 1 h"))
    schedule.timing = "every 1 d"
    for act in (schedule.pause, schedule.resume):
        act()
        assert (schedule.timing, again(schedule).timing) == ("every 1 d", "every 1 h")
    assert as_utc(again(schedule).next_tick) == START + timedelta(hours=1)
    schedule.save()
    assert as_utc(again(schedule).next_tick) == START.replace(day=16, hour=0)


def test_a_new_schedule_may_begin_with_a_pause(clock):
    schedule = Schedule(name="later", timing="every 1 h", target="queueapp.Note")
    schedule.pause()
    assert (again(schedule).is_paused, again(schedule).next_tick) == (True, None)


@pytest.mark.each_database
@pytest.mark.skipif(connection.vendor != "mysql", reason="it shows an old row next to the new one")
def test_who_resumes_in_a_transaction_plans_by_what_others_have_said_since_it_began(clock):
    schedule = paused()
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    with transaction.atomic():
        found = again(schedule)
        in_thread(partial(change, schedule, timing="every 30 min"))
        found.resume()
    assert as_utc(again(schedule).next_tick) == START + timedelta(minutes=30)


def change(schedule, **columns):
    Schedule.objects.filter(pk=schedule.pk).update(**columns)


def save_rolled_back(schedule):
    with suppress(InterruptedError), transaction.atomic():
        schedule.save()
        raise InterruptedError


def test_a_timing_that_was_rolled_back_is_planned_when_it_is_saved_again(clock):
    schedule = scheduled(timing="every 30 d")
    schedule.timing = "every 1 min"
    save_rolled_back(schedule)
    assert again(schedule).timing == "every 30 d"
    schedule.save()
    assert as_utc(again(schedule).next_tick) == START + timedelta(minutes=1)
    assert ticks_after_an_hour(clock) > 0


def test_a_pause_that_was_rolled_back_is_written_when_it_is_saved_again(clock):
    schedule = scheduled(timing="every 1 h")
    schedule.is_paused = True
    save_rolled_back(schedule)
    schedule.save()
    assert again(schedule).is_paused
    assert ticks_after_an_hour(clock) == 0


def test_a_pause_that_ends_in_the_transaction_of_its_beginning_has_ended():
    schedule = scheduled(timing="every 1 h")
    with transaction.atomic():
        for is_paused in (True, False):
            schedule.is_paused = is_paused
            schedule.save()
    assert not again(schedule).is_paused
    assert as_utc(again(schedule).next_tick) == START + timedelta(hours=1)


def test_a_save_that_writes_an_older_timing_back_plans_by_that(clock):
    older = again(scheduled(timing="every 1 min"))
    newer = again(older)
    newer.timing = "every 30 d"
    newer.save()
    older.arguments = {"text": "other"}
    older.save()
    row = again(older)
    assert (row.timing, as_utc(row.next_tick)) == ("every 1 min", START + timedelta(minutes=1))
    assert ticks_after_an_hour(clock) > 0


def test_a_pause_of_somebody_else_holds_after_a_rollback_of_another_change(clock):
    schedule = scheduled(timing="every 1 h")
    schedule.timing = "every 2 h"
    save_rolled_back(schedule)
    again(schedule).pause()
    schedule.save()
    row = again(schedule)
    assert (row.is_paused, row.next_tick, row.timing) == (True, None, "every 2 h")


def test_within_one_transaction_a_pause_of_somebody_else_holds():
    with transaction.atomic():
        schedule = scheduled(timing="every 1 h")
        schedule.pause()
        again(schedule).resume()
        schedule.arguments = {"text": "other"}
        schedule.save()
        assert not again(schedule).is_paused
        again(schedule).pause()
        schedule.save()
        assert again(schedule).is_paused


def test_a_pause_that_was_rolled_back_alone_is_written_when_it_is_saved_again():
    schedule = scheduled(timing="every 1 h")
    with transaction.atomic():
        schedule.timing = "every 2 h"
        schedule.save()
        schedule.is_paused = True
        save_rolled_back(schedule)
    schedule.save()
    assert again(schedule).is_paused


def test_an_end_of_a_pause_that_was_rolled_back_alone_is_written_when_it_is_saved_again():
    schedule = scheduled(timing="every 1 h")
    with transaction.atomic():
        schedule.is_paused = True
        schedule.save()
        schedule.is_paused = False
        save_rolled_back(schedule)
        assert again(schedule).is_paused
        schedule.save()
    assert not again(schedule).is_paused


@pytest.mark.parametrize("columns", [{"time_zone": "Europe/Berlin"}, {"is_paused": False}])
def test_what_is_saved_alone_is_planned_with_the_timing_that_others_gave(columns):
    newer = scheduled(timing="every 30 d")
    if "is_paused" in columns:
        newer.pause()
    stale = again(newer)
    newer.timing = "every 1 min"
    newer.save()
    for name, value in columns.items():
        setattr(stale, name, value)
    stale.save(update_fields=[*columns])
    row = again(stale)
    assert (row.timing, as_utc(row.next_tick)) == ("every 1 min", START + timedelta(minutes=1))
    assert stale.timing == "every 30 d"


def test_without_autocommit_it_is_saved_in_the_transaction_of_the_caller():
    transaction.set_autocommit(False)
    try:
        schedule = scheduled(timing="every 1 h")
        schedule.pause()
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert again(schedule).is_paused


def test_what_was_not_read_is_not_read_by_a_refresh():
    scheduled(timing="every 1 h")
    schedule = Schedule.objects.only("name").get()
    schedule.refresh_from_db()
    assert {"is_paused", "timing"} <= schedule.get_deferred_fields()
    schedule.arguments = {"text": "other"}
    schedule.save(update_fields=["arguments"])
    assert again(schedule).arguments == {"text": "other"}


def test_a_refresh_makes_a_pause_that_of_the_row(clock):
    schedule = scheduled(timing="every 1 h")
    schedule.is_paused = True
    save_rolled_back(schedule)
    schedule.refresh_from_db()
    again(schedule).pause()
    schedule.save()
    assert again(schedule).is_paused
    assert ticks_after_an_hour(clock) == 0


def test_an_end_of_a_pause_that_was_read_alone_is_one(clock):
    stale = again(scheduled(timing="every 1 h"))
    again(stale).pause()
    stale.refresh_from_db(fields=["is_paused"])
    assert stale.is_paused
    stale.is_paused = False
    stale.save()
    assert ticks_after_an_hour(clock) == 1
