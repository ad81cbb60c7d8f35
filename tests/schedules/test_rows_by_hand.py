"""Times that a hand wrote into rows of schedules: the others tick, and it is said what to do."""

from datetime import timedelta

import pytest
from django.db import connection

from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.schedules import scheduler
from django_dbqueue.schedules.firing import Look, due_in, look, run_due
from django_dbqueue.schedules.models import Schedule, as_utc
from django_dbqueue.schedules.replan import replan
from tests.kit.schedules import START, again, scheduled, ticks_of
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

HOUR = 3600
# What reads as no instant.
ODD = {"sqlite": ["", "nonsense", "2031"], "postgresql": ["-infinity", "infinity"]}
UNREADABLE = "next_tick cannot be read: pause the schedule, and resume it"
ODD_TIMES = pytest.mark.parametrize(
    "odd",
    ODD.get(connection.vendor)
    or [pytest.param("", marks=pytest.mark.skip(reason="its columns hold instants"))],
)


def write(schedule, column, value):
    table = Schedule._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {column} = %s WHERE id = %s", [value, schedule.pk])


def test_a_time_to_look_without_a_tick_is_nothing_to_do(clock):
    schedule = scheduled(timing="every 1 h")
    write(schedule, "next_tick", None)
    clock.move(HOUR)
    assert due_in("default") is None
    assert look(Look("default")) == 0


@ODD_TIMES
@pytest.mark.each_database
def test_a_next_tick_that_cannot_be_read_is_told_and_stops_no_other(clock, odd, caplog):
    broken, whole = scheduled("a", "every 1 h"), scheduled("b", "every 1 h")
    write(broken, "next_tick", odd)
    clock.move(HOUR)
    run_due()
    assert ticks_of(whole) == [START + timedelta(hours=1)]
    assert again(broken).error == UNREADABLE
    assert f"schedule a: nothing enqueued: {UNREADABLE}" in caplog.text
    assert due_in("default") > 0
    again(broken).pause()
    again(broken).resume()
    clock.move(HOUR)
    run_due()
    assert len(ticks_of(broken)) == 1
    assert again(broken).error == ""


@ODD_TIMES
@pytest.mark.each_database
def test_a_time_to_look_that_cannot_be_read_is_set_anew(clock, odd):
    schedule = scheduled(timing="every 1 h")
    write(schedule, "next_at", odd)
    assert due_in("default") == 0
    run_due()
    clock.move(HOUR)
    run_due()
    assert ticks_of(schedule) == [START + timedelta(hours=1)]


@ODD_TIMES
@pytest.mark.each_database
def test_times_that_cannot_be_read_stop_no_agent_that_starts(clock, odd):
    one, other = scheduled("a", "every 1 h"), scheduled("b", "every 1 h")
    for column in ("next_tick", "next_at"):
        write(one, column, odd)
    write(other, "next_at", odd)
    replan("default")
    run_due()
    run_due()
    assert again(one).error == UNREADABLE
    assert as_utc(again(other).next_at) == START + timedelta(hours=1)


@pytest.mark.process
def test_a_forked_process_rests_where_it_alone_takes_something_for_due(monkeypatch, tmp_path):
    looks = tmp_path / "looks"

    def due(_):
        with looks.open("a") as log:
            log.write(".")
        return -1.0

    monkeypatch.setattr(scheduler, "due_in", due)
    monkeypatch.setattr(scheduler, "LIFE_SECONDS_MAX", life := 3.0)
    here = scheduler.Scheduler([table_of(Note, "default")])
    here._fork()
    wait_until(lambda: not here._is_enqueueing())
    assert 1 < len(looks.read_text()) <= 1 + life / scheduler.REST_SECONDS_MIN


@pytest.mark.skipif(connection.vendor != "sqlite", reason="its columns hold words")
@pytest.mark.parametrize("words", ["2031-01-15 13:00:00", "2031-01-15T13:00:00.000000"])
def test_a_next_tick_in_other_words_is_the_same_tick(clock, words):
    schedule = scheduled(timing="every 1 h")
    write(schedule, "next_tick", words)
    clock.move(HOUR)
    assert run_due() == 2  # at the first look it is written as we write it
    assert ticks_of(schedule) == [START + timedelta(hours=1)]
