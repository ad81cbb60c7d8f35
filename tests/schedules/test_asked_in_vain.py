"""What ``dbqueue schedule run`` says where there is nothing to enqueue, and what happens next."""

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, OperationalError

from django_dbqueue.schedules import command, firing
from django_dbqueue.schedules.models import Schedule, Tick
from django_dbqueue.schedules.targets import TARGETS, QueueTable
from django_dbqueue.testing import virtual_clock
from tests.kit.schedules import START, scheduled
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
NEXT = (
    "its next tick, 2031-01-16 03:00:00 UTC, meets the same until it is mended, paused or deleted"
)


@pytest.fixture(autouse=True)
def clock():
    with virtual_clock(START):
        yield


def said(verb="run"):
    with pytest.raises(CommandError) as refused:
        call_command("dbqueue", "schedule", verb, "nightly")
    assert not Note.objects.exists()
    assert not Tick.objects.exists()
    return str(refused.value)


def broken(**columns):
    Schedule.objects.filter(pk=scheduled("nightly").pk).update(**columns)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"target": "shop.Gone"}, "target: no model 'shop.Gone' is installed"),
        ({"kind": "errand"}, "kind of target must be one of"),
        ({"kind": "task", "target": "shop.tasks.gone"}, "target: 'shop.tasks.gone': "),
        ({"arguments": {"colour": 1}}, "arguments: 'colour' is no column of queueapp.Note"),
    ],
)
def test_what_is_wrong_with_its_target_is_said_and_what_happens_next(columns, problem):
    broken(**columns)
    why = said()
    assert why.startswith(f"nightly: nothing was enqueued: {problem}")
    assert why.endswith(NEXT)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (
            IntegrityError("FOREIGN KEY constraint failed"),
            "its arguments name a row that is gone, or one that is there: IntegrityError: FOREIGN",
        ),
        (RuntimeError("Queue 'nowhere' is not valid"), "RuntimeError: Queue 'nowhere' is not"),
        (OperationalError("no such table: queueapp_note"), "OperationalError: no such table"),
    ],
)
def test_what_the_target_raises_is_said_in_words(monkeypatch, error, problem):
    def refuse(*_):
        raise error

    monkeypatch.setattr(QueueTable, "enqueue", refuse)
    broken()
    why = said()
    assert f"nightly: nothing was enqueued: {problem}" in why
    assert why.endswith(NEXT)


def test_one_that_is_paused_stays_so():
    broken(target="shop.Gone", is_paused=True, next_tick=None)
    assert said().endswith("; it stays paused")


def test_one_that_has_no_tick_left_never_ticks_again():
    broken(target="shop.Gone", next_tick=None)
    assert said().endswith("; it never ticks again")


@pytest.mark.parametrize("verb", ["run", "pause", "resume"])
def test_one_that_is_deleted_meanwhile_is_said_to_be_gone(monkeypatch, verb):
    scheduled("nightly")
    named = command.named

    def named_before(name, using):
        found = named(name, using)
        Schedule.objects.all().delete()
        return found

    monkeypatch.setattr(command, "named", named_before)
    gone = "nightly was deleted meanwhile: nothing was enqueued, and it ticks no more"
    assert said(verb) == gone
    assert not Schedule.objects.exists()


def test_the_admin_says_the_same(browser):
    broken(target="shop.Gone")
    given = {"action": "run_selected", "_selected_action": [Schedule.objects.get().pk]}
    page = browser.post("/admin/dbqueue_schedules/schedule/", given, follow=True)
    assert NEXT in page.content.decode()


def test_nothing_is_written_for_one_that_is_gone():
    schedule = scheduled("nightly")
    Schedule.objects.all().delete()
    with pytest.raises(firing.ScheduleGone):
        firing.run_now(schedule, "anna")
    assert not Note.objects.exists()
    assert set(TARGETS) >= {"table", "task"}
