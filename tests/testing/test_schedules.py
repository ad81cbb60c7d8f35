"""Schedules that tick in a test while its clock moves."""

from datetime import UTC, datetime, timedelta

import pytest

from django_dbqueue.schedules import schedule
from django_dbqueue.schedules.declared import DECLARED
from django_dbqueue.schedules.models import Tick
from django_dbqueue.testing import virtual_clock
from tests.kit.schedules import scheduled, ticks_of
from tests.queueapp.models import Note
from tests.tasks import calls

HOUR = 3600


@pytest.fixture(autouse=True)
def declared():
    before = list(DECLARED)
    DECLARED.clear()
    yield DECLARED
    DECLARED[:] = before


def test_a_tick_that_is_due_runs_with_all_that_is_ready(jobs):
    with virtual_clock(datetime(2031, 1, 15, 12, tzinfo=UTC)) as clock:
        scheduled(timing="every 1 h")
        assert jobs.run_all() == 0
        clock.move(HOUR)
        assert jobs.run_all() == 1
    assert Note.objects.get().state == "done"


def test_schedules_tick_while_a_delayed_job_is_waited_for(jobs):
    with virtual_clock(datetime(2031, 1, 15, 12, 30, tzinfo=UTC)) as clock:
        row = scheduled(timing="every 1 h")
        Note.objects.enqueue(delay=2.75 * HOUR)
        assert jobs.run_until_settled(Note) == 4
        end = clock.now
    assert ticks_of(row) == [datetime(2031, 1, 15, hour, tzinfo=UTC) for hour in (13, 14, 15)]
    assert end - datetime(2031, 1, 15, 15, 15, tzinfo=UTC) < timedelta(seconds=1)


def test_a_schedule_alone_is_not_waited_for(jobs):
    scheduled(timing="every 1 h")
    assert jobs.run_until_settled() == 0
    assert not Tick.objects.exists()


def test_a_day_of_a_worker_is_run(jobs):
    schedule("hourly", timedelta(hours=1), Note, {"text": "tick", "action": "fail"})
    with virtual_clock(datetime(2031, 1, 15, 12, 30, tzinfo=UTC)) as clock:
        assert jobs.run_for(24 * HOUR, "queueapp.Note") == 24 * 3
        assert clock.now == datetime(2031, 1, 16, 12, 30, tzinfo=UTC)
        assert jobs.run_for(HOUR) == 3  # of any queue
    assert Note.objects.filter(text="tick").count() == 25


def test_tasks_tick_too(jobs):
    schedule("greet", "*/10 * * * *", calls.noop, {"args": [1]}, time_zone="UTC")
    assert jobs.run_for(HOUR) == 6
    jobs.assert_enqueued(calls.noop, args=[1])


@pytest.mark.any_database
@pytest.mark.parametrize("odd", [-1, float("nan"), "soon"])
def test_a_time_that_is_none_is_refused(jobs, odd):
    with pytest.raises(ValueError, match="seconds must be between 0 and"):
        jobs.run_for(odd)
