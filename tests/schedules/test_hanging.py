"""A target that never returns: the process that enqueues is ended, and the next one is careful."""

from contextlib import suppress

import pytest

from django_dbqueue.schedules import firing
from django_dbqueue.schedules.models import Schedule, as_utc
from django_dbqueue.schedules.targets import TARGETS, QueueTable, Target
from tests.kit.schedules import again, notes_of, scheduled, ticks_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

HOUR = 3600


class Killed(BaseException):
    """As a signal would end the process."""


@pytest.fixture
def asked(monkeypatch):
    """The schedules that hang, each time that they were asked."""
    real, asked = QueueTable.enqueue, []

    def enqueue(target, schedule, using):
        if schedule.target == "queueapp.Fleeting":
            asked.append(schedule.name)
            raise Killed
        return real(target, schedule, using)

    monkeypatch.setattr(QueueTable, "enqueue", enqueue)
    return asked


def hanging(name, **columns):
    return scheduled(name, "every 1 h", target="queueapp.Fleeting", arguments={}, **columns)


class Away(Target):
    """A broker that never answers."""

    def clean(self, schedule, using):
        """Anything goes."""

    def enqueue(self, schedule, using):
        raise Killed


def look(*, is_careful):
    """By a process that is ended where it hangs."""
    with suppress(Killed):
        firing.look(firing.Look("default", is_careful))


def test_what_never_returns_is_asked_once_and_then_put_off(clock, asked):
    names = ["a", "b", "c"]
    hang, fine = [hanging(name) for name in names], scheduled("d", "every 1 h")
    clock.move(HOUR)
    for _ in range(2 * len(names)):
        look(is_careful=True)
    assert sorted(asked) == names
    assert len(ticks_of(fine)) == 1
    assert as_utc(again(fine).next_at) == as_utc(again(fine).next_tick)
    assert firing.due_in("default") == firing.RETRY_SECONDS
    assert [ticks_of(one) for one in hang] == [[], [], []]


@pytest.mark.parametrize("is_careful", [False, True])
def test_what_did_not_return_comes_after_all_others(clock, asked, is_careful):
    fine = [scheduled(name, "every 1 h") for name in "abcd"]
    hanging("e")
    clock.move(HOUR)
    for _ in range(2):
        look(is_careful=True)
    assert asked == ["e"]
    clock.move(HOUR)
    look(is_careful=is_careful)
    assert asked == ["e", "e"]
    assert [len(ticks_of(one)) for one in fine] == [2, 2, 2, 2]


def test_a_broker_that_did_not_return_comes_after_others_and_is_put_off_in_the_usual_look(
    clock, monkeypatch
):
    monkeypatch.setitem(TARGETS, "broker", Away())
    hangs = scheduled("a", "every 1 h", kind="broker")
    clock.move(HOUR)
    look(is_careful=True)
    fine = [scheduled(f"of a broker {n}", "every 1 h", kind="broker") for n in range(5)]
    clock.move(HOUR)
    asked = []
    monkeypatch.setattr(Away, "enqueue", lambda _, schedule, using: asked.append(schedule) or "1")
    look(is_careful=False)
    assert len(asked) >= 6
    assert asked[len(fine)].name == hangs.name
    monkeypatch.undo()
    monkeypatch.setitem(TARGETS, "broker", Away())
    Schedule.objects.exclude(pk=hangs.pk).delete()
    Schedule.objects.update(error="no answer")
    clock.move(HOUR)
    look(is_careful=False)
    assert firing.due_in("default") == firing.RETRY_SECONDS


def test_those_that_share_a_transaction_have_their_time_together(clock):
    for name in "abcd":
        scheduled(name, "every 1 h")
    begun = []
    clock.move(HOUR)
    firing.look(firing.Look("default", before_turn=lambda: begun.append(1)))
    assert (len(begun), Note.objects.count()) == (1, 4)


def test_what_is_written_here_does_not_wait_for_a_broker_that_hangs(clock, monkeypatch):
    monkeypatch.setitem(TARGETS, "broker", Away())
    for number in range(9):
        scheduled(f"of the broker {number}", "every 1 h", kind="broker")
    fine = scheduled("z", "every 1 h")
    clock.move(HOUR)
    look(is_careful=True)
    assert len(ticks_of(fine)) == 1


def test_a_tick_whose_target_did_not_return_is_not_missed(clock, asked):
    schedule = hanging("a", missed="skip")
    clock.move(HOUR)
    look(is_careful=True)
    Schedule.objects.update(target="queueapp.Note")
    clock.move(firing.RETRY_SECONDS + 1)
    look(is_careful=False)
    assert notes_of(schedule) == [""]
    assert Note.objects.count() == 1
