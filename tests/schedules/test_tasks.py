"""A task as the target: anything that has ``enqueue``, at a dotted path."""

from collections.abc import Collection
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
from django.core.exceptions import ValidationError
from django.db import connection

from django_dbqueue.schedules import firing, ticking
from django_dbqueue.schedules.firing import run_due
from django_dbqueue.schedules.models import Schedule, Tick
from django_dbqueue.schedules.targets import TARGETS, Target
from django_dbqueue.testing import virtual_clock
from tests.kit.schedules import START, again, notes_of, scheduled, ticks_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

PATH = f"{__name__}.greet"


class Task:
    """As Django's Tasks have it: ``using`` answers another one."""

    def __init__(self, **wanted):
        self.wanted = wanted

    def using(self, **wanted):
        return Task(**wanted)

    def enqueue(self, name, *, greeting="hello"):
        job = Note.objects.create(
            text=f"{greeting} {name}",
            queue=self.wanted.get("queue_name", "default"),
            priority=self.wanted.get("priority", 1024),
        )
        return SimpleNamespace(id=f"task-{job.pk}")


greet = Task()


class Bell:
    """What is rung stays rung, whatever becomes of the transaction; at some calls it is broken."""

    def __init__(self):
        self.rung, self.calls = [], 0
        self.broken: Collection[int] = ()

    def enqueue(self):
        self.calls += 1
        if self.calls in self.broken:
            raise ConnectionError("the rope is torn")
        self.rung.append(object())


bell = Bell()


@pytest.fixture
def start():
    with virtual_clock(START) as clock:
        yield clock


@pytest.fixture
def rings(monkeypatch):
    """A schedule of the bell, which is a new one."""
    monkeypatch.setitem(globals(), "bell", Bell())

    def schedule(name="nightly", timing="every 1 min", **columns):
        given = {"kind": "task", "target": f"{__name__}.bell", "arguments": {}}
        return scheduled(name, timing, **given, **columns)

    return schedule


def after_an_hour(clock):
    clock.move(3600)
    run_due()


def test_a_task_is_enqueued_with_its_arguments(start):
    arguments = {"args": ["anna"], "kwargs": {"greeting": "good morning"}}
    schedule = scheduled(
        timing="every 1 h", kind="task", target=PATH, arguments=arguments, queue="dawn", priority=5
    )
    after_an_hour(start)
    [note] = Note.objects.all()
    assert (note.text, note.queue, note.priority) == ("good morning anna", "dawn", 5)
    [tick] = Tick.objects.all()
    assert (tick.job, tick.target) == (f"task-{note.pk}", PATH)
    assert again(schedule).error == ""


def test_a_task_that_cannot_be_called_so_is_written_down(start):
    schedule = scheduled(timing="every 1 h", kind="task", target=PATH, arguments={})
    after_an_hour(start)
    assert not Note.objects.exists()
    assert "TypeError" in again(schedule).error


@pytest.mark.parametrize(
    "arguments", [{"arg": []}, {"args": {}}, {"kwargs": []}, [], {"args": [], "name": "anna"}]
)
def test_arguments_that_are_none_of_a_task_are_refused(arguments):
    with pytest.raises(ValidationError, match="arguments of a task must be"):
        scheduled(kind="task", target=PATH, arguments=arguments)


def test_what_becomes_of_a_task_is_not_known_to_an_overlap():
    with pytest.raises(ValidationError, match="only allow"):
        scheduled(kind="task", target=PATH, arguments={"args": ["anna"]}, overlap="skip")


def test_an_app_adds_a_kind_of_target_of_its_own(monkeypatch, start):
    class Letters(Target):
        label = "letter"

        def clean(self, schedule, using):
            if "to" not in schedule.arguments:
                raise ValidationError({"arguments": "arguments: a letter needs to"})

        def enqueue(self, schedule, using):
            return f"{schedule.arguments['to']} {Note.objects.using(using).create().pk}"

    monkeypatch.setitem(TARGETS, "letter", Letters())
    with pytest.raises(ValidationError, match="a letter needs to"):
        scheduled(kind="letter", target="post", arguments={})
    schedule = scheduled(timing="every 1 h", kind="letter", target="post", arguments={"to": "anna"})
    after_an_hour(start)
    assert Tick.objects.get().job == f"anna {Note.objects.get().pk}"
    assert notes_of(schedule) == [""]


def test_a_task_is_enqueued_once_though_the_schedule_next_to_it_is_broken(start, rings):
    rings("a", "every 1 h")
    broken = scheduled("b", "every 1 h", target="shop.Thumbnail", arguments={"photo": 987654})
    after_an_hour(start)
    assert again(broken).error
    assert len(bell.rung) == 1


def test_what_a_broker_has_got_is_not_sent_again_when_a_later_call_fails(start, rings):
    schedule, bell.broken = rings(missed="all"), (3, 4)
    start.move(5 * 60)
    run_due()
    assert (len(bell.rung), len(ticks_of(schedule)), again(schedule).count) == (2, 2, 2)
    assert again(schedule).error
    for _ in range(2):
        start.move(firing.RETRY_SECONDS)
        run_due()
    assert ticks_of(schedule) == [START + timedelta(minutes=n) for n in range(1, 8)]
    assert (len(bell.rung), again(schedule).count, again(schedule).error) == (7, 7, "")


def test_what_was_missed_while_a_broker_was_away_is_told_once_up_to_the_next_tick(start, rings):
    schedule, bell.broken = rings(missed="latest"), (1,)
    start.move(60)
    run_due()
    start.move(4 * 60)
    run_due()
    assert ticks_of(schedule) == [START + timedelta(minutes=n) for n in (1, 2, 4, 5)]
    missed = "missed: it could not be enqueued, and those up to 2031-01-15 12:04:00 UTC"
    assert notes_of(schedule) == ["", missed, "", ""]


def test_who_comes_second_leaves_all_ticks_of_a_task_to_the_first(start, rings):
    schedule, second = rings(missed="all"), START + timedelta(minutes=2)
    start.move(3 * 60)

    def move_first(execute, sql, *rest):
        if sql.startswith("UPDATE") and not moved:
            moved.append(second)
            Schedule.objects.update(next_tick=second, next_at=second)
        return execute(sql, *rest)

    moved: list[datetime] = []
    with connection.execute_wrapper(move_first):
        firing.look(firing.Look("default"))
    assert (len(bell.rung), ticks_of(schedule)) == (0, [])


def test_old_ticks_of_a_task_are_deleted_though_each_has_its_transaction(start, rings, monkeypatch):
    monkeypatch.setattr(ticking, "KEPT_TICKS", 5)
    schedule = rings(missed="all")
    start.move(30 * 60)
    run_due()
    assert 5 <= len(ticks_of(schedule)) <= 10
    assert len(bell.rung) == 30
