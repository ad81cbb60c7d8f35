"""A target that asks for something by ``on_commit()``, which fails there: the tick is written."""

import pytest
from django.db import transaction

from django_dbqueue.schedules.firing import run_due, run_now
from django_dbqueue.schedules.models import Tick
from django_dbqueue.schedules.targets import QueueTable
from tests.kit.schedules import again, notes_of, scheduled, ticks_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

HOUR = 3600


@pytest.fixture
def called(monkeypatch):
    """The schedules whose hooks were called; that of each whose name begins with broken fails."""
    real, called = QueueTable.enqueue, []

    def enqueue(target, schedule, using):
        def hook():
            called.append(schedule.name)
            if schedule.name.startswith("broken"):
                raise ConnectionError("the broker is away")

        transaction.on_commit(hook, using=using)
        return real(target, schedule, using)

    monkeypatch.setattr(QueueTable, "enqueue", enqueue)
    return called


def errors(caplog):
    return [one for one in caplog.records if one.levelname == "ERROR"]


def test_what_fails_after_the_commit_is_logged_and_the_tick_is_written(clock, called, caplog):
    schedule = scheduled("broken", "every 1 h")
    clock.move(HOUR)
    run_due()
    [told] = errors(caplog)
    assert told.getMessage().startswith("schedule broken: it has ticked")
    assert isinstance(told.exc_info[1], ConnectionError)
    assert (len(ticks_of(schedule)), again(schedule).error) == (1, "")
    assert run_due() == 0


def test_what_fails_after_the_commit_keeps_no_other_schedule_from_its_own(clock, called, caplog):
    for name in ("a", "broken b", "c", "broken d"):
        scheduled(name, "every 1 h")
    clock.move(HOUR)
    run_due()
    assert called == ["a", "broken b", "c", "broken d"]
    assert [one.getMessage().split(":")[0] for one in errors(caplog)] == [
        "schedule broken b",
        "schedule broken d",
    ]
    assert Note.objects.count() == Tick.objects.count() == 4


def test_who_runs_a_schedule_is_told_the_job_though_something_fails_after_its_commit(
    clock, called, caplog
):
    schedule = scheduled("broken", "every 1 h")
    tick = run_now(again(schedule), "anna")
    assert tick.job == str(Note.objects.get().pk)
    assert notes_of(schedule) == ["asked for by anna"]
    assert len(errors(caplog)) == 1


def test_nothing_follows_a_commit_that_was_rolled_back(clock, called):
    scheduled("a", "every 1 h")
    scheduled("b", "every 1 h", target="shop.Thumbnail", arguments={"photo": 987654})
    clock.move(HOUR)
    run_due()
    assert called == ["a"]
