"""The backend of Django Tasks: what is enqueued, and what is known of it."""

import asyncio
import dataclasses
import math
import pickle
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.test import override_settings
from django.utils import timezone

from django_dbqueue.fields import aware
from django_dbqueue.tasks import compat, task
from django_dbqueue.tasks.backends import DatabaseBackend
from django_dbqueue.tasks.checks import check_backend
from django_dbqueue.tasks.models import Task, new_id
from django_dbqueue.testing import InlineWorker
from tests.kit.clock import without_use_tz
from tests.kit.jobs import overwrite
from tests.tasks import calls

pytestmark = pytest.mark.usefixtures("db_rows")
UNKNOWN_ID = "01a20fb7-23cf-768c-9ea9-a5b6a16d0a34"
TABLES = "dbqueue_tasks.task", "dbqueue_tasks.asynctask"
PATH = "django_dbqueue.tasks.backends.DatabaseBackend"


def backend(alias="default"):
    return compat.task_backends[alias]


def work_off():
    with InlineWorker(*TABLES) as worker:
        worker.run()


def rows():
    return list(Task.objects.order_by("pk"))


def test_all_features_are_supported():
    flags = ("defer", "async_task", "get_result", "priority")
    assert all(getattr(backend(), f"supports_{flag}") for flag in flags)


def test_a_result_is_the_same_when_it_is_asked_for():
    given = calls.add.using(priority=7).enqueue(1, b=2)
    assert given.status == compat.TaskResultStatus.READY
    assert (given.args, given.kwargs, given.task.priority) == ([1], {"b": 2}, 7)
    assert calls.add.get_result(given.id) == given
    before = dataclasses.asdict(given)
    given.refresh()
    assert dataclasses.asdict(given) == before


def test_async_code_enqueues_and_asks():
    async def both():
        given = await calls.noop.aenqueue(1)
        found = await calls.noop.aget_result(given.id)
        await given.arefresh()
        # Those of the thread in which this has run.
        await sync_to_async(connections.close_all)()
        return given, found

    given, found = asyncio.run(both())
    assert given == found


def test_a_task_belongs_to_the_transaction_that_enqueues_it():
    with transaction.atomic():
        calls.noop.enqueue()
        assert len(rows()) == 1
        transaction.set_rollback(True)
    assert rows() == []


def test_so_does_one_that_async_code_enqueues():
    with transaction.atomic():
        async_to_sync(calls.noop.aenqueue)()
        assert len(rows()) == 1
        transaction.set_rollback(True)
    assert rows() == []


def test_many_are_enqueued_by_few_statements(django_assert_max_num_queries):
    with django_assert_max_num_queries(5):
        results = calls.add.enqueue_many([(1,), {"a": 2, "b": 3}, (4, 5)])
    work_off()
    for one in results:
        one.refresh()
    assert [one.return_value for one in results] == [1, 5, 9]


def test_async_code_enqueues_many_in_its_transaction():
    with transaction.atomic():
        found = async_to_sync(calls.add.aenqueue_many)([(1,), {"a": 2, "b": 3}])
        assert [row.kwargs for row in rows()] == [{}, {"a": 2, "b": 3}]
        assert [str(row.result_id) for row in rows()] == [one.id for one in found]
        transaction.set_rollback(True)
    assert rows() == []


def test_of_many_all_or_none_are_enqueued():
    with pytest.raises(TypeError):
        calls.add.enqueue_many([(1,), (datetime.now(),)])
    assert rows() == []


@pytest.mark.parametrize("call", ["ab", b"ab", 5, None, {1, 2}])
def test_a_call_of_many_that_is_no_list_of_arguments_is_refused(call):
    with pytest.raises(TypeError, match=r"call 2 must be a list of arguments or a dict of keyword"):
        calls.noop.enqueue_many([(1,), call])
    assert not Task.objects.exists()


def test_of_many_each_has_its_own_options():
    usual, later = calls.noop, calls.noop.using(run_after=timedelta(hours=1), max_attempts=7)
    urgent = calls.noop.using(priority=100, time_to_run=9)
    backend().enqueue_many([(one, (), {}) for one in (usual, later, urgent)])
    assert [(row.queue, row.priority, row.max_attempts, row.time_to_run) for row in rows()] == [
        ("default", 1024, 1, None),
        ("default", 1024, 7, None),
        ("default", 924, 1, 9),
    ]
    assert [row.retry_at is None for row in rows()] == [True, False, True]
    assert [row.state for row in rows()] == ["ready", "delayed", "ready"]


def test_of_many_each_task_is_validated():
    path = "django_dbqueue.tasks.backends.DatabaseBackend"
    with override_settings(TASKS={"default": {"BACKEND": path, "QUEUES": ["other"]}}):
        right = calls.noop.using(queue_name="other")
        with pytest.raises(compat.InvalidTask, match="default"):
            backend().enqueue_many([(right, (), {}), (calls.noop, (), {}), (right, (), {})])
    assert rows() == []


@pytest.mark.parametrize(
    "result_id", ["123", "", "x" * 64, "\0", None, 7, UNKNOWN_ID, UNKNOWN_ID[:-1]]
)
def test_a_result_that_is_not_there_is_said_so(result_id):
    calls.noop.enqueue()
    with pytest.raises(compat.TaskResultDoesNotExist):
        backend().get_result(result_id)


def test_a_result_of_another_task_is_a_mismatch():
    given = calls.noop.enqueue()
    with pytest.raises(compat.exceptions.TaskResultMismatch):
        calls.add.get_result(given.id)


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), {1}, object(), math.nan, math.inf])
def test_what_is_no_json_is_refused_and_breaks_no_transaction(value):
    with transaction.atomic():
        with pytest.raises((TypeError, ValueError)):
            calls.echo.enqueue(value)
        assert rows() == []


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((1, {2}), {}, "argument 2 cannot be stored as JSON: Unsupported type: <class 'set'>"),
        ((1,), {"b": [object()]}, "argument 'b' cannot be stored as JSON: Unsupported type: "),
        ((math.inf,), {}, "argument 1 cannot be stored as JSON: Out of range float"),
        ((), {"b": b"\xff"}, "argument 'b' cannot be stored as JSON: Unsupported value: "),
        ((), {b"\xff": 1}, "the arguments cannot be stored as JSON: Unsupported value: "),
    ],
)
def test_the_argument_that_is_no_json_is_named(args, kwargs, words):
    kind = TypeError if "Unsupported type" in words else ValueError
    with pytest.raises(kind) as refused:
        backend().enqueue(calls.noop, args, kwargs)
    assert str(refused.value).startswith(words)
    assert refused.value.__cause__ is not None


def test_what_nests_too_deep_or_is_too_large_is_refused():
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises((ValueError, RecursionError)):
        calls.echo.enqueue(deep)
    with pytest.raises(ValueError, match=r"stored: 1,048,585 bytes .* 1,048,576"):
        calls.echo.enqueue("x" * (1 << 20))
    assert rows() == []


@pytest.mark.parametrize(
    "value", ["\0", "\ud800", "é漢😀", 10**40, {"b": 1, "a": 2}, {1: 2}, [], {}, None, -0.5]
)
def test_values_come_back_as_they_were(value):
    given = calls.echo.enqueue(value)
    assert calls.echo.get_result(given.id).args == given.args
    work_off()
    given.refresh()
    assert given.return_value == given.args[0]


@pytest.mark.parametrize("priority", [-100, -1, 0, 1, 100])
def test_priorities_are_mapped_both_ways(priority):
    given = calls.noop.using(priority=priority).enqueue()
    assert calls.noop.get_result(given.id).task.priority == priority


def test_the_higher_priority_runs_first():
    for number, priority in enumerate([0, -5, 100, 5]):
        calls.add.using(priority=priority).enqueue(number)
    with InlineWorker(*TABLES, "--batch-size", "1") as worker:
        worker.run()
    order = [row.args[0] for row in Task.objects.order_by("dequeued_time", "priority")]
    assert order == [2, 3, 0, 1]


@pytest.mark.parametrize("by", [timedelta(hours=1), None])
def test_a_task_is_due_later(by):
    at = timezone.now() + timedelta(hours=1)
    given = calls.noop.using(run_after=by or at).enqueue()
    assert abs(given.task.run_after - at) < timedelta(minutes=1)
    assert calls.noop.get_result(given.id) == given
    work_off()
    given.refresh()
    assert given.status == compat.TaskResultStatus.READY
    overwrite(rows()[0], retry_at=timezone.now() - timedelta(seconds=1))
    work_off()
    given.refresh()
    assert given.status == compat.TaskResultStatus.SUCCESSFUL


@pytest.mark.parametrize(
    ("begin", "minutes"),
    [
        (datetime(2026, 10, 25, 1, 30, tzinfo=UTC), 10),  # within the second hour of two
        (datetime(2026, 10, 25, 0, 55, tzinfo=UTC), 10),  # from the first one into the second
        (datetime(2026, 3, 28, 20, tzinfo=UTC), 12 * 60),  # over a night that lacks one
    ],
)
def test_without_use_tz_a_delay_is_as_long_as_it_says(monkeypatch, begin, minutes):
    local = begin.astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None)
    monkeypatch.setattr(timezone, "now", lambda: local)
    delay = timedelta(minutes=minutes)
    with without_use_tz("Europe/Berlin"):
        given = calls.noop.using(run_after=delay).enqueue()
        [row] = rows()
        assert aware(row.retry_at).astimezone(UTC) == begin + delay
    assert timezone.is_naive(given.task.run_after)
    assert given.task.run_after == row.run_after == row.retry_at


def test_what_was_due_in_the_past_runs_at_once():
    calls.noop.using(run_after=timezone.now() - timedelta(days=1)).enqueue()
    assert [row.state for row in rows()] == ["ready"]


@pytest.mark.parametrize(
    "change",
    [
        {"run_after": timedelta(seconds=-1)},
        {"run_after": timedelta(days=999_999_999)},
        {"run_after": "tomorrow"},
        {"priority": "high"},
        {"priority": True},
        {"run_after": datetime(2026, 1, 1)},
        {"priority": 101},
        {"priority": 3.5},
        {"queue_name": "elsewhere"},
        {"max_attempts": 0},
        {"max_attempts": 2**31},
        {"time_to_run": 0},
        {"time_to_run": 1.5},
        {"dedup_key": 7},
    ],
)
def test_an_option_out_of_its_limits_is_refused_by_name(change):
    with pytest.raises(compat.InvalidTask, match=f"(?i){next(iter(change)).removesuffix('_name')}"):
        calls.noop.using(**change)


@pytest.mark.parametrize("options", [{"retry_on": (1,)}, {"backoff": "soon"}])
def test_so_are_those_of_the_decorator(options):
    with pytest.raises(compat.InvalidTask, match=next(iter(options))):
        task(**options)(calls.noop.func)


def test_an_unknown_option_of_the_decorator_is_named():
    with pytest.raises(TypeError, match="max_tries"):
        task(max_tries=3)(calls.noop.func)


def test_a_dedup_key_gives_the_task_that_waits():
    first = calls.once_for_each.enqueue(1)
    assert calls.once_for_each.enqueue(1).id == first.id
    assert calls.once_for_each.enqueue(2).id != first.id
    assert len(rows()) == 2
    work_off()
    assert calls.once_for_each.enqueue(1).id != first.id


def test_a_dedup_key_out_of_its_limits_leaves_nothing():
    with pytest.raises(ValidationError, match="dedup_key"):
        calls.noop.using(dedup_key="x" * 201).enqueue()
    assert rows() == []


def test_ids_grow_with_time_and_are_unique():
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {one.version for one in ids} == {7}
    assert sorted(ids, key=lambda one: one.int >> 80) == ids


def test_enqueueing_is_told_with_the_backend_as_sender():
    heard = []

    def hear(sender, task_result, **_):
        heard.append((sender, task_result.id))
        raise RuntimeError("a receiver's fault")

    compat.signals.task_enqueued.connect(hear)
    try:
        given = calls.noop.enqueue()
        [other] = calls.noop.enqueue_many([()])
    finally:
        compat.signals.task_enqueued.disconnect(hear)
    assert heard == [(DatabaseBackend, given.id), (DatabaseBackend, other.id)]


@pytest.mark.parametrize("name", ["DummyBackend", "ImmediateBackend"])
def test_other_backends_of_ours_know_the_options(name):
    path = f"django_dbqueue.tasks.backends.{name}"
    with override_settings(TASKS={"default": {"BACKEND": path}}):
        given = calls.fail_thrice.using(max_attempts=2).enqueue()
        assert given.task.max_attempts == 2
        walked = calls.walk.enqueue(3)
    if name == "ImmediateBackend":
        assert given.status == compat.TaskResultStatus.FAILED
        assert walked.status == compat.TaskResultStatus.SUCCESSFUL


@pytest.mark.parametrize("name", ["DummyBackend", "ImmediateBackend"])
def test_other_backends_of_ours_refuse_what_the_queue_table_would(name):
    path = f"django_dbqueue.tasks.backends.{name}"
    with override_settings(TASKS={"default": {"BACKEND": path}}):
        with pytest.raises(compat.InvalidTask, match="max_attempts"):
            calls.noop.using(max_attempts=0)
        assert len(calls.noop.enqueue_many([(1,), (2,)])) == 2
        if name == "DummyBackend":
            calls.noop.using(run_after=timedelta(seconds=5)).enqueue()


@pytest.mark.parametrize("delay", [timedelta(seconds=5), timedelta(0)])
@override_settings(
    TASKS={"default": {"BACKEND": "django_dbqueue.tasks.backends.ImmediateBackend"}},
)
def test_a_backend_that_runs_a_task_at_once_refuses_a_time_however_it_is_given(delay):
    for run_after in (delay, timezone.now() + delay):
        with pytest.raises(compat.InvalidTask, match="run_after"):
            calls.noop.using(run_after=run_after)


@pytest.mark.parametrize("task", [calls.noop, calls.once_for_each, calls.fail_thrice])
def test_tasks_and_their_results_can_be_pickled(task):
    changed = task.using(priority=3)
    assert pickle.loads(pickle.dumps(changed)) == changed
    result = changed.enqueue(*[1] if task is calls.once_for_each else [])
    assert pickle.loads(pickle.dumps(result)) == result


def test_what_using_has_changed_is_in_the_result_that_is_asked_for():
    given = calls.noop.using(time_to_run=9, max_attempts=4, dedup_key="one").enqueue()
    assert calls.noop.get_result(given.id) == given


def test_a_backend_that_is_asked_itself_finds_its_results():
    two = {"default": {"BACKEND": PATH}, "other": {"BACKEND": PATH}}
    with override_settings(TASKS=two):
        given = backend("other").enqueue(calls.noop, (), {})
        given.refresh()
        assert (given.backend, given.task.backend) == ("other", "other")
        with pytest.raises(compat.TaskResultDoesNotExist):
            backend().get_result(given.id)


@override_settings(TASKS={"default": {"BACKEND": PATH, "QUEUES": []}})
@pytest.mark.parametrize("name", ["x" * 300, "a\0b", ""])
def test_a_name_that_no_queue_can_have_is_refused(name):
    with pytest.raises(compat.InvalidTask, match="queue_name"):
        calls.noop.using(queue_name=name)


def test_an_id_is_known_by_its_own_spelling_alone():
    given = calls.noop.enqueue()
    for other in (given.id.upper(), given.id.replace("-", ""), f"urn:uuid:{given.id}"):
        with pytest.raises(compat.TaskResultDoesNotExist):
            backend().get_result(other)


def test_wrong_options_are_found_by_the_system_checks():
    wrong = {"enqueue_on_comit": True, "database": "nowhere"}
    found = list(check_backend("default", wrong))
    assert [one.id for one in found] == ["dbqueue_tasks.E002", "dbqueue_tasks.E003"]
    assert "enqueue_on_commit" in found[0].hint
    assert list(check_backend("default", {"database": "default"})) == []


def test_migrations_are_complete():
    call_command("makemigrations", "dbqueue_tasks", check=True, verbosity=0)


def test_the_row_of_a_result_is_found_by_an_index():
    given = calls.noop.enqueue()
    # MySQL's usual one, a tree, says of one row by a unique key only that it was read.
    plain = {"format": "TRADITIONAL"} if connection.vendor == "mysql" else {}
    plan = Task.objects.filter(result_id=given.id).explain(**plain)
    assert connection.vendor == "postgresql" or "result_id" in plan.lower() or "const" in plan
