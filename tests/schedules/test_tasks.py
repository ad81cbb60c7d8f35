"""A task as the target: anything that has ``enqueue``, at a dotted path."""

from types import SimpleNamespace

import pytest
from django.core.exceptions import ValidationError

from django_dbqueue.schedules.firing import run_due
from django_dbqueue.schedules.models import Tick
from django_dbqueue.schedules.targets import TARGETS, Target
from django_dbqueue.testing import virtual_clock
from tests.kit.schedules import START, again, notes_of, scheduled
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
    """What is rung stays rung, whatever becomes of the transaction."""

    def __init__(self):
        self.rung = []

    def enqueue(self):
        self.rung.append(object())


bell = Bell()


@pytest.fixture
def start():
    with virtual_clock(START) as clock:
        yield clock


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


def test_a_task_is_enqueued_once_though_the_schedule_next_to_it_is_broken(start, monkeypatch):
    monkeypatch.setattr(bell, "rung", [])
    task = {"kind": "task", "target": f"{__name__}.bell"}
    scheduled("a", "every 1 h", arguments={}, **task)
    broken = scheduled("b", "every 1 h", target="shop.Thumbnail", arguments={"photo": 987654})
    after_an_hour(start)
    assert again(broken).error
    assert len(bell.rung) == 1
