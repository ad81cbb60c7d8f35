"""Tasks of our own backend as targets: overlaps, and what the admin says of them."""

import pytest
from django.core.exceptions import ValidationError
from django.test import override_settings

from django_dbqueue.schedules.firing import run_due
from django_dbqueue.schedules.models import Tick
from django_dbqueue.tasks.models import AsyncTask, Task
from django_dbqueue.tasks.results import MIDDLE_PRIORITY
from django_dbqueue.testing import virtual_clock
from tests.kit.bounds import limits
from tests.kit.schedules import START, notes_of, scheduled
from tests.tasks import calls

pytestmark = pytest.mark.usefixtures("db_rows")
ON_COMMIT = override_settings(
    TASKS={
        "default": {
            "BACKEND": "django_dbqueue.tasks.backends.DatabaseBackend",
            "OPTIONS": {"enqueue_on_commit": True},
        }
    }
)
TABLES = {calls.noop: Task, calls.slow_double: AsyncTask}


@pytest.fixture
def start():
    with virtual_clock(START) as clock:
        yield clock


def each_hour(clock):
    clock.move(3600)
    run_due()


def hourly(task=calls.noop, **columns):
    given = {"kind": "task", "target": task.module_path, "arguments": {"args": [1]}}
    return scheduled(timing="every 1 h", **given, **columns)


@pytest.mark.parametrize("task", TABLES)
def test_a_tick_is_skipped_while_the_last_task_has_not_ended(start, task):
    table, schedule = TABLES[task], hourly(task, overlap="skip")
    each_hour(start)
    each_hour(start)
    [row] = table.objects.all()
    [job] = table.objects.claim()
    each_hour(start)
    job.complete()
    each_hour(start)
    words = f"skipped: job {row.result_id} of the last tick was"
    assert notes_of(schedule) == ["", f"{words} waiting", f"{words} running", ""]
    assert table.objects.count() == 2


def test_the_waiting_task_of_the_last_tick_is_replaced_and_a_running_one_goes_on(start):
    schedule = hourly(overlap="replace")
    each_hour(start)
    [first] = Task.objects.all()
    each_hour(start)
    [second] = Task.objects.all()
    assert second.pk != first.pk
    Task.objects.claim()
    each_hour(start)
    assert Task.objects.count() == 2
    assert notes_of(schedule) == [
        "",
        f"job {first.result_id} of the last tick was still waiting, and was cancelled",
        f"job {second.result_id} of the last tick was running, and went on",
    ]


@ON_COMMIT
def test_overlaps_know_of_the_tick_before_where_tasks_wait_for_a_commit(start):
    schedule = hourly(overlap="skip", missed="all")
    start.move(3 * 3600)
    run_due()
    [row] = Task.objects.all()
    words = f"skipped: job {row.result_id} of the last tick was waiting"
    assert notes_of(schedule) == ["", words, words]


@ON_COMMIT
def test_what_is_refused_is_tried_again_where_tasks_wait_for_a_commit(start):
    calls.noop.enqueue(1)
    schedule = hourly()
    with limits("dbqueue_tasks.task", max_length=1):
        each_hour(start)
    schedule.refresh_from_db()
    assert (schedule.error[:9], Tick.objects.count()) == ("QueueFull", 0)
    start.move(60)
    run_due()
    [tick] = Tick.objects.all()
    assert Task.objects.filter(result_id=tick.job).exists()


@override_settings(TASKS={"default": {"BACKEND": "django_dbqueue.tasks.backends.DummyBackend"}})
def test_of_a_task_of_another_backend_nobody_knows_what_became():
    with pytest.raises(ValidationError, match="another backend"):
        hourly(overlap="skip")
    hourly()


def test_the_admin_links_to_the_task_and_says_what_became_of_it(start, browser):
    schedule = hourly()
    each_hour(start)
    [row] = Task.objects.all()
    [tick] = Tick.objects.all()
    assert tick.job == str(row.result_id)
    page = browser.get(f"/admin/dbqueue_schedules/schedule/{schedule.pk}/change/").content.decode()
    assert f"/admin/dbqueue_tasks/task/{row.pk}/change/" in page
    assert f"{row.result_id}</a>: ready" in page


@pytest.mark.parametrize(
    ("task", "arguments", "problem"),
    [
        (calls.add, {}, "missing a required argument: 'a'"),
        (calls.add, {"args": [1, 2, 3]}, "too many positional arguments"),
        (calls.add, {"args": [1], "kwargs": {"c": 2}}, "got an unexpected keyword argument 'c'"),
        (calls.async_second_time_lucky, {"args": [1]}, "too many positional arguments"),
    ],
)
def test_arguments_that_a_task_does_not_take_are_refused(task, arguments, problem):
    with pytest.raises(ValidationError) as refused:
        scheduled(kind="task", target=task.module_path, arguments=arguments)
    assert refused.value.message_dict == {
        "arguments": [f"arguments do not fit {task.module_path}: {problem}"]
    }


@pytest.mark.parametrize("priority", [-100, -1, 0, 100])
def test_the_priorities_of_a_task_are_those_of_the_framework(start, priority):
    hourly(priority=priority)
    each_hour(start)
    assert Task.objects.get().priority == MIDDLE_PRIORITY - priority


@override_settings(
    TASKS={
        "default": {
            "BACKEND": "django_dbqueue.tasks.backends.DatabaseBackend",
            "QUEUES": ["default"],
        }
    }
)
@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("priority", -101, "between -100 and 100"),
        ("priority", 101, "between -100 and 100"),
        ("queue", "elsewhere", "'elsewhere' is not valid"),
    ],
)
def test_what_a_task_cannot_be_given_is_refused(column, value, words):
    with pytest.raises(ValidationError) as refused:
        hourly(**{column: value})
    [message] = refused.value.message_dict[column]
    assert words in message


@pytest.mark.parametrize("name", ["decorated", "prefixed", "unreadable"])
def test_arguments_that_something_else_takes_are_not_judged(name):
    path = f"{calls.__name__}.{name}"
    assert scheduled(kind="task", target=path, arguments={"args": [5]}).pk


def test_the_context_of_a_task_is_none_of_its_arguments():
    task = calls.async_second_time_lucky
    assert scheduled(kind="task", target=task.module_path, arguments={}).pk
