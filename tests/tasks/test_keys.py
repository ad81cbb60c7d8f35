"""Calls of tasks that share a concurrency key, and calls that replace one that waits."""

import pickle
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError

from django_dbqueue.lifecycle.twins import renew
from django_dbqueue.models import enqueued
from django_dbqueue.states import Status
from django_dbqueue.tasks import compat, task
from django_dbqueue.tasks.models import AsyncTask, Task
from django_dbqueue.testing import InlineWorker
from tests.tasks import calls

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]


def claim(limit=10, model=Task):
    return model.objects.claim(limit=limit)


def columns():
    return list(
        Task.objects.order_by("pk").values_list("concurrency_key", "concurrency_limit", "key_order")
    )


def test_a_format_string_names_the_arguments_however_they_are_given():
    calls.export.enqueue("a")
    calls.export.enqueue(tenant="b")
    calls.export.using(concurrency_key="{pages} of {0}").enqueue("c")
    assert columns() == [("tenant a", 2, None), ("tenant b", 2, None), ("1 of c", 2, None)]


def test_a_function_of_the_arguments_and_an_order():
    calls.post.enqueue("a")
    assert columns() == [("a", None, "skip")]


def test_each_task_has_its_own_limit():
    for _ in range(4):
        calls.export.enqueue("a")
        calls.post.enqueue("a")
    assert sorted(job.task_path for job in claim()) == [
        *["tests.tasks.calls.export"] * 2,
        "tests.tasks.calls.post",
    ]


def test_calls_without_a_key_are_as_they_were():
    calls.noop.enqueue()
    calls.noop.enqueue_many([[] for _ in range(3)])
    assert columns() == [(None, None, None)] * 4
    assert len(claim()) == 4


def test_many_calls_at_once_get_their_keys():
    calls.export.enqueue_many([["a"], ["a"], ["a"]])
    assert len(claim()) == 2


def test_coroutines_have_keys_too():
    for number in range(3):
        calls.call_service.enqueue(number)
    assert len(claim(model=AsyncTask)) == 1


def test_a_queue_of_the_settings_may_give_all_calls_a_key(settings):
    settings.DBQUEUE = {"QUEUES": {"dbqueue_tasks.task": {"concurrency_key": "{task_path}"}}}
    for _ in range(3):
        calls.noop.enqueue()
    assert len(claim()) == 1


def test_a_worker_runs_all_of_a_key():
    for _ in range(5):
        calls.post.enqueue("a")
    with InlineWorker("dbqueue_tasks.task") as worker:
        worker.run()
    assert {row.status for row in Task.objects.all()} == {Status.DONE}


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency_key": 7},
        {"concurrency_limit": 0},
        {"key_order": "random"},
        {"when_head_fails": "wait"},
        {"on_duplicate": "merge"},
        {"debounce": 5},
        {"dedup_key": "x", "debounce": -1},
        {"dedup_key": "x", "debounce": 5, "max_wait": 1},
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_name(options):
    *_, name = options
    wanted = "dedup_key" if options == {"debounce": 5} else name
    with pytest.raises(compat.InvalidTask, match=wanted):
        task(**options)(calls.noop.func)


def test_a_key_that_cannot_be_worked_out_leaves_nothing():
    with pytest.raises(ValidationError, match="concurrency_key"):
        calls.export.using(concurrency_key="{nobody}").enqueue("a")
    with pytest.raises(ValidationError, match="concurrency_key"):
        calls.export.enqueue("x" * 200)
    assert not Task.objects.exists()


def test_the_options_survive_a_pickle():
    changed = calls.export.using(concurrency_limit=5, dedup_key="x", debounce=3)
    again = pickle.loads(pickle.dumps(changed))
    assert (again.concurrency_limit, again.debounce) == (5, 3)


def test_a_call_replaces_the_one_that_waits_under_the_id_of_the_first():
    first = calls.index.enqueue(1)
    second = calls.index.enqueue(2)
    [row] = Task.objects.all()
    assert (second.id, str(row.result_id), row.args) == (first.id, first.id, [2])
    assert row.status == Status.DELAYED


def test_a_call_that_names_no_time_keeps_that_of_the_one_it_replaces():
    replacing = calls.add.using(dedup_key="k", on_duplicate="replace")
    first = replacing.using(run_after=timedelta(hours=1)).enqueue(1)
    second = replacing.enqueue(2)
    [row] = Task.objects.all()
    assert (row.args, row.status) == ([2], Status.DELAYED)
    assert second.task.run_after == row.run_after == row.retry_at == first.task.run_after


def test_a_call_that_moves_it_by_a_debounce_or_a_time_of_its_own_does_not():
    replacing = calls.add.using(dedup_key="k", on_duplicate="replace")
    replacing.using(run_after=timedelta(hours=1)).enqueue(1)
    second = replacing.using(run_after=timedelta(hours=2)).enqueue(2)
    [row] = Task.objects.all()
    assert second.task.run_after == row.run_after == row.retry_at
    replacing.using(debounce=60).enqueue(3)
    assert Task.objects.get().run_after is None


def test_a_call_knows_the_one_that_is_claimed_right_after_it_was_replaced(monkeypatch):
    def renew_and_claim(*given):
        found = renew(*given)
        Task.objects.claim()
        return found

    replacing = calls.add.using(dedup_key="k", on_duplicate="replace")
    first = replacing.enqueue(1, b=2)
    monkeypatch.setattr(enqueued, "renew", renew_and_claim)
    second = replacing.enqueue(3, b=4)
    assert (second.id, second.args) == (first.id, [3])


def test_a_call_without_a_key_replaces_one_that_waits_for_its_key_and_runs():
    replacing = calls.post.using(dedup_key="k", on_duplicate="replace")
    calls.post.enqueue("a")
    replacing.enqueue("a")
    [held] = claim()
    assert claim() == []
    result = replacing.enqueue("")
    with InlineWorker("dbqueue_tasks.task") as worker:
        worker.run()
    result.refresh()
    assert str(result.status) == "SUCCESSFUL"
    held.complete()
