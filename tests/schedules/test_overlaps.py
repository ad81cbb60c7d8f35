"""Which job an overlap looks at: the last one, also after "run now" and after another overlap."""

import pytest

from django_dbqueue.schedules.firing import run_due, run_now
from django_dbqueue.schedules.models import Schedule
from tests.kit.schedules import again, notes_of, scheduled
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

HOUR = 3600


def after_an_hour(clock):
    clock.move(HOUR)
    run_due()


def test_a_tick_is_skipped_while_its_job_runs_though_somebody_has_run_it_by_hand(clock):
    schedule = scheduled(timing="every 1 h", overlap="skip")
    after_an_hour(clock)
    [slow] = Note.objects.claim()
    clock.move(60)
    run_now(again(schedule), "anna")
    [quick] = Note.objects.claim()
    quick.complete()
    after_an_hour(clock)
    words = f"skipped: job {slow.pk} of the last tick was running"
    assert notes_of(schedule) == ["", "asked for by anna", words]
    slow.complete()
    after_an_hour(clock)
    assert notes_of(schedule)[3:] == [""]


def test_a_tick_is_skipped_while_what_was_asked_for_next_to_another_job_waits(clock):
    schedule = scheduled(timing="every 1 h", overlap="skip")
    after_an_hour(clock)
    [first] = Note.objects.claim()
    asked = run_now(again(schedule), "anna")
    first.complete()
    after_an_hour(clock)
    words = f"skipped: job {asked.job} of the last tick was waiting"
    assert notes_of(schedule) == ["", "asked for by anna", words]
    after_an_hour(clock)
    assert notes_of(schedule)[3:] == [words]


def test_a_tick_is_skipped_while_what_somebody_has_asked_for_runs_where_nothing_else_does(clock):
    schedule = scheduled(timing="every 1 h", overlap="skip")
    after_an_hour(clock)
    [job] = Note.objects.claim()
    job.complete()
    asked = run_now(again(schedule), "anna")
    after_an_hour(clock)
    words = f"skipped: job {asked.job} of the last tick was waiting"
    assert notes_of(schedule) == ["", "asked for by anna", words]


def test_a_job_of_before_a_change_from_allow_is_in_the_way(clock):
    schedule = scheduled(timing="every 1 h")
    after_an_hour(clock)
    [job] = Note.objects.all()
    Schedule.objects.update(overlap="skip")
    after_an_hour(clock)
    assert notes_of(schedule) == ["", f"skipped: job {job.pk} of the last tick was waiting"]


def test_the_last_job_is_that_of_the_last_tick_though_overlaps_were_allowed_in_between(clock):
    schedule = scheduled(timing="every 1 h", overlap="skip")
    after_an_hour(clock)
    [first] = Note.objects.claim()
    first.complete()
    Schedule.objects.update(overlap="allow")
    after_an_hour(clock)
    [second] = Note.objects.claim()
    Schedule.objects.update(overlap="skip")
    after_an_hour(clock)
    words = f"skipped: job {second.pk} of the last tick was running"
    assert notes_of(schedule) == ["", "", words]
