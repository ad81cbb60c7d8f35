"""Tasks that a worker runs: outcomes, retries, and rows that this code cannot run."""

import asyncio
import json
import logging
import os
import signal
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connections
from django.test import override_settings
from django.utils import timezone

from django_dbqueue import diagnose
from django_dbqueue.dialects.types import RowsLocked
from django_dbqueue.exceptions import Bury, TimeToRunExceeded
from django_dbqueue.lifecycle import reap, sweep
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.models.exactly_once import TRIES
from django_dbqueue.states import Status
from django_dbqueue.tasks import compat
from django_dbqueue.tasks.models import AsyncTask, Task
from django_dbqueue.testing import InlineWorker, virtual_clock
from django_dbqueue.worker import reaper
from django_dbqueue.worker.served import all_served
from tests.kit.jobs import overwrite
from tests.kit.processes import lines, wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.once import Effect
from tests.tasks import calls
from tests.tasks.test_backend import PATH, TABLES, rows, work_off


@contextmanager
def virtual_alias(name):
    """One more alias, which nobody connects to."""
    connections.settings[name] = connections.settings["default"]
    try:
        yield
    finally:
        del connections.settings[name]


pytestmark = pytest.mark.usefixtures("db_rows")
Status_ = compat.TaskResultStatus
ENDED = Status.DELAYED, Status.BURIED


def ran(task, *args, **kwargs):
    """The result of a task that was enqueued and run."""
    given = task.enqueue(*args, **kwargs)
    work_off()
    given.refresh()
    return given


def test_a_task_succeeds_with_what_it_returns():
    result = ran(calls.add, 1, b=2)
    assert (result.status, result.return_value, result.attempts) == (Status_.SUCCESSFUL, 3, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    assert result.errors == []


def test_a_coroutine_function_runs():
    assert ran(calls.slow_double, 21).return_value == 42


@pytest.mark.parametrize(("task", "value"), [(calls.add, 7), (calls.slow_double, 14)])
def test_what_has_a_rate_of_its_own_runs_and_is_told_by_the_queue_that_it_was_given(
    settings, task, value
):
    lanes = {"rate": "10/s", "rate_key": "{task_path}"}
    settings.DBQUEUE = {"QUEUES": dict.fromkeys(TABLES, lanes)}
    given = task.enqueue(7)
    lane = f"default@{task.module_path}"
    assert [m.objects.filter(queue=lane).count() for m in (Task, AsyncTask)].count(1) == 1
    assert task.get_result(given.id) == given
    work_off()
    given.refresh()
    assert (given.status, given.return_value) == (Status_.SUCCESSFUL, value)
    assert given.task.queue_name == "default"


def test_what_has_a_rate_of_its_own_waits_once_its_queue_is_none_of_the_backends(settings):
    settings.DBQUEUE = {"QUEUES": {"dbqueue_tasks.task": {"rate": "9/s", "rate_key": "a"}}}
    calls.add.enqueue(1)
    with override_settings(TASKS={"default": {"BACKEND": PATH, "QUEUES": ["a", "default@a"]}}):
        assert rows()[0].found.problem.startswith("queue 'default' is none of the QUEUES")


def test_what_waits_in_a_lane_runs_also_once_its_queue_has_no_rate_any_more(settings):
    settings.DBQUEUE = {"QUEUES": {"dbqueue_tasks.task": {"rate": "9/s", "rate_key": "a"}}}
    given = calls.add.enqueue(1)
    settings.DBQUEUE = {}
    work_off()
    given.refresh()
    assert given.status == Status_.SUCCESSFUL


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        (calls.fail, ValueError),
        (calls.leave, SystemExit),
        (calls.interrupt, KeyboardInterrupt),
        (calls.be_rude, calls.Rude),
        (calls.async_be_rude, calls.Rude),
        (calls.cancel, asyncio.CancelledError),
        (calls.async_cancel, asyncio.CancelledError),
        (calls.unstorable, TypeError),
        (calls.add, TypeError),
    ],
)
def test_an_error_of_a_plain_task_is_final(task, kind):
    result = ran(task)
    assert result.status == Status_.FAILED
    [error] = result.errors
    assert error.exception_class is kind
    assert kind.__name__ in error.traceback
    assert result.attempts == 1
    assert result.finished_at is not None
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


@pytest.mark.parametrize("words", ["\0", "\ud800", "x" * 100_000])
def test_any_words_of_an_error_are_stored(words, caplog):
    # The framework logs them as they are, and half a character cannot be reported by pytest.
    caplog.set_level(logging.CRITICAL, logger=compat.NAME)
    assert ran(calls.fail, words).status == Status_.FAILED
    assert ran(calls.add, 1).status == Status_.SUCCESSFUL


def test_a_result_that_is_too_large_is_the_failure_of_its_task():
    result = ran(calls.huge, 20 << 20)
    assert result.status == Status_.FAILED
    assert "limit is 1,048,576" in result.errors[0].traceback


def test_a_policy_of_its_own_retries_with_its_pauses():
    given = calls.fail_thrice.enqueue()
    with virtual_clock() as clock, InlineWorker(*TABLES, clock=clock) as worker:
        worker.run()
        given.refresh()
        assert (given.status, given.attempts) == (Status_.READY, 1)
        began = clock.now
        worker.drain()
        assert timedelta(seconds=5.9) <= clock.now - began < timedelta(seconds=7)
    given.refresh()
    assert (given.status, given.attempts, len(given.errors)) == (Status_.FAILED, 3, 3)
    assert {one.exception_class for one in given.errors} == {OSError}
    assert "3 of 3 attempts are used up, the last one by OSError" in explained(rows()[0])


def test_a_value_of_an_attempt_that_failed_is_not_that_of_a_later_one():
    given = calls.noop.using(max_attempts=2).enqueue()
    [job] = Task.objects.claim()
    job.return_value = "what a coroutine returned at the end of its time to run"
    job.fail(TimeToRunExceeded("too long"))
    assert rows()[0].return_value
    Task.objects.kick()
    work_off()
    given.refresh()
    assert (given.status, given.return_value, given.attempts) == (Status_.SUCCESSFUL, None, 2)


def test_an_error_that_is_not_to_be_retried_is_final():
    result = ran(calls.fail_otherwise)
    assert (result.status, result.attempts) == (Status_.FAILED, 1)
    assert result.errors[0].exception_class is ValueError
    assert "ValueError is none of retry_on" in explained(rows()[0])


def test_a_task_may_ask_to_be_retried():
    given = calls.second_time_lucky.enqueue()
    with virtual_clock() as clock, InlineWorker(*TABLES, clock=clock) as worker:
        worker.drain()
    given.refresh()
    assert (given.status, given.return_value, given.attempts) == (Status_.SUCCESSFUL, 2, 2)
    assert len(given.worker_ids) == 2


def test_a_task_may_give_up():
    result = ran(calls.give_up)
    assert (result.status, result.attempts) == (Status_.FAILED, 1)


def test_a_task_knows_its_result_so_far():
    result = ran(calls.who_am_i)
    assert result.return_value == {"id": result.id, "status": "RUNNING", "workers": 1}


@pytest.mark.parametrize(
    ("task", "state"), [(calls.noop, "buried"), (calls.fail_thrice, "delayed")]
)
def test_the_end_of_a_time_to_run_asks_for_the_tasks_own_attempts(task, state):
    task.enqueue()
    [row] = Task.objects.claim()
    overwrite(row, retry_at=timezone.now() - timedelta(seconds=60))
    table = table_of(Task, "default")
    assert len(reap.end_overdue(table, reap.find_overdue(table))) == 1
    assert rows()[0].state == state


def end_overdue(row):
    overwrite(row, retry_at=timezone.now() - timedelta(seconds=60))
    table = table_of(Task, "default")
    assert len(reap.end_overdue(table, reap.find_overdue(table))) == 1


def test_an_end_of_time_that_is_none_of_retry_on_is_final():
    given = calls.too_long.enqueue()
    [row] = Task.objects.claim()
    end_overdue(row)
    given.refresh()
    assert (given.status, given.attempts) == (Status_.FAILED, 1)
    assert given.errors[0].exception_class is TimeToRunExceeded


def test_after_an_end_of_time_the_tasks_own_pauses_are_kept():
    calls.too_long_at_first.enqueue()
    for pause in (600, 900):
        [row] = Task.objects.claim()
        end_overdue(row)
        [row] = rows()
        assert row.state == "delayed"
        left = row.retry_at - timezone.now()
        assert timedelta(seconds=pause - 60) < left < timedelta(seconds=pause + 60)
        overwrite(row, status=Status.READY, retry_at=None)
    [row] = Task.objects.claim()
    end_overdue(row)
    assert rows()[0].state == "buried"


@pytest.mark.parametrize(
    "task", [calls.never_yet, calls.async_never_yet, calls.never_yet_by_one_error]
)
def test_a_retry_without_a_delay_keeps_the_tasks_own_pauses(task):
    task.enqueue()
    for pause in (1000, 5000):
        work_off()
        [row] = rows() or AsyncTask.objects.all()
        left = (row.retry_at - timezone.now()).total_seconds()
        assert left == pytest.approx(pause, rel=0.2)
        overwrite(row, status=Status.READY, retry_at=None)
    work_off()
    [row] = rows() or AsyncTask.objects.all()
    assert (row.state, [one["exception"] for one in row.errors]) == ("buried", ["Retry"] * 3)


@pytest.mark.parametrize("kind", ["bury", "retry", "later", "while"])
@pytest.mark.parametrize("task", [calls.end_for_a_reason, calls.async_end_for_a_reason])
def test_what_a_retry_or_bury_was_raised_from_is_kept(task, kind):
    task.enqueue(kind)
    work_off()
    [row] = rows() or AsyncTask.objects.all()
    assert {"LookupError: the inner one" in one["traceback"] for one in row.errors} == {True}


def test_a_backoff_that_is_broken_hides_no_error(caplog):
    calls.fail_oddly.enqueue()
    for pause in (1000, 60):
        work_off()
        [row] = rows()
        assert (row.retry_at - timezone.now()).total_seconds() == pytest.approx(pause, rel=0.2)
        overwrite(row, status=Status.READY, retry_at=None)
    assert [one["exception"] for one in row.errors] == ["ValueError"] * 2
    assert "backoff.seconds(2) gave KeyError: 2: retrying in 60 s" in caplog.text


@pytest.mark.parametrize("odd", ["x", "{}", '["x"]', "[-1]", "7", "[null]"])
def test_pauses_that_a_hand_wrote_stop_nobody(odd):
    calls.fail_thrice.enqueue()
    [row] = Task.objects.claim()
    sql = f"UPDATE {Task._meta.db_table} SET overdue_pauses = %s"
    connections["default"].cursor().execute(sql, [odd])
    end_overdue(row)
    assert rows()[0].state == "delayed"


def test_what_a_worker_stops_for_its_time_is_judged_by_the_tasks_own_options(database_url, log):
    final = [calls.too_long.enqueue(log), calls.awaits_too_long.enqueue()]
    again = [calls.too_long_at_first.enqueue(log), calls.awaits_too_long_at_first.enqueue()]
    with worker(database_url, *TABLES, "--threads", "2", "--coroutines", "2"):
        wait_until(lambda: not Task.objects.exclude(status__in=ENDED).exists(), seconds=60)
        wait_until(lambda: not AsyncTask.objects.exclude(status__in=ENDED).exists(), seconds=60)
    for one in (*final, *again):
        one.refresh()
        assert (one.attempts, one.errors[0].exception_class) == (1, TimeToRunExceeded)
    assert [one.status for one in final] == [Status_.FAILED] * 2
    for model in (Task, AsyncTask):
        row = model.objects.get(status=Status.DELAYED)
        assert row.retry_at - timezone.now() > timedelta(seconds=300)


def test_exactly_once_commits_its_effects_with_its_end():
    paid, failed = calls.pay.enqueue(1), calls.pay_and_fail.enqueue(2)
    work_off()
    for one in (paid, failed):
        one.refresh()
    assert (paid.status, paid.return_value) == (Status_.SUCCESSFUL, 1)
    assert failed.status == Status_.FAILED
    assert list(Effect.objects.values_list("job", flat=True)) == [1]


@pytest.mark.parametrize("task", [calls.pay_in_the_end, calls.async_pay_in_the_end])
def test_exactly_once_what_the_database_aborts_is_charged_to_nobody(task, monkeypatch):
    monkeypatch.setattr(calls, "TROUBLES", [RowsLocked("as in a deadlock") for _ in range(2)])
    given = ran(task, 5)
    assert (given.status, given.attempts, given.errors) == (Status_.SUCCESSFUL, 1, [])
    assert list(Effect.objects.values_list("job", flat=True)) == [5]


@pytest.mark.parametrize(
    ("task", "state"), [(calls.pay_tomorrow, "delayed"), (calls.pay_now_or_never, "buried")]
)
def test_exactly_once_what_the_database_always_aborts_is_judged_by_the_task(
    task, state, monkeypatch
):
    monkeypatch.setattr(calls, "TROUBLES", [RowsLocked("as in a deadlock") for _ in range(TRIES)])
    task.enqueue(5)
    work_off()
    [row] = rows()
    assert (row.state, row.errors[0]["exception"]) == (state, "RowsLocked")
    assert (calls.TROUBLES, Effect.objects.count()) == ([], 0)
    if state == "delayed":
        assert (row.retry_at - timezone.now()).total_seconds() > 3000


def test_of_one_priority_the_first_enqueued_runs_first_whenever_it_was_due():
    order = []

    def hear(task_result, **_):
        order.append(task_result.id)

    hours = [timezone.now() + timedelta(hours=number) for number in (9, 3)]
    late, early = [calls.noop.using(run_after=one).enqueue().id for one in hours]
    urgent = calls.noop.using(run_after=hours[0], priority=1).enqueue().id
    for row, ago in zip(rows(), (1, 60, 1), strict=True):
        overwrite(row, retry_at=timezone.now() - timedelta(seconds=ago))
    compat.signals.task_started.connect(hear)
    try:
        work_off()
    finally:
        compat.signals.task_started.disconnect(hear)
    assert order == [urgent, late, early]


def test_the_time_to_run_is_the_tasks_own():
    calls.short.enqueue()
    calls.short.using(time_to_run=9).enqueue()
    assert [row.time_to_run for row in rows()] == [7, 9]


def explained(row):
    return str(diagnose.explain(table_of(Task, "default"), row.pk))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"task_path": "tests.tasks.calls.gone"}, "cannot be imported"),
        ({"task_path": "tests.nowhere.gone"}, "cannot be imported"),
        ({"task_path": "tests.tasks.calls.time"}, "calls.time is no task"),
        ({"backend": "elsewhere"}, "has no backend 'elsewhere'"),
        ({"queue": "closed"}, "none of the QUEUES"),
    ],
)
@pytest.mark.parametrize("task", [calls.noop, calls.pay])
def test_a_row_that_this_code_cannot_run_waits_with_a_reason(task, change, reason):
    given = task.enqueue(*([5] if task is calls.pay else []))
    Task.objects.filter(pk=rows()[0].pk).update(**change)
    later = calls.add.enqueue(1)
    work_off()
    waiting = rows()[0]
    assert (waiting.status, waiting.attempts) == (Status.DELAYED, 0)
    assert reason in explained(waiting)
    later.refresh()
    assert later.status == Status_.SUCCESSFUL
    if "backend" not in change:
        assert compat.task_backends["default"].get_result(given.id).status == Status_.READY
    Task.objects.filter(pk=waiting.pk).update(
        task_path=task.module_path, backend="default", queue="default"
    )
    Task.objects.kick()
    work_off()
    assert rows()[0].status == Status.DONE


@pytest.mark.parametrize(
    ("created", "run_after", "seconds"),
    [
        (0, None, 10),
        (8 * 3600, 8 * 3600, 3600),
        (1000, None, 500),
        (8 * 3600, 0, 10),
        (8 * 3600, 1000, 500),
        (8 * 3600, -60, 10),
    ],
)
def test_a_row_waits_for_code_the_longer_the_longer_it_was_due(created, run_after, seconds):
    given, now = calls.noop.enqueue(), timezone.now()
    due = None if run_after is None else now - timedelta(seconds=run_after)
    made = now - timedelta(seconds=created)
    columns = {"task_path": "tests.tasks.calls.gone", "created_at": made, "run_after": due}
    Task.objects.filter(result_id=given.id).update(**columns)
    work_off()
    left = (rows()[0].retry_at - now).total_seconds()
    assert seconds - 2 < left < seconds + 60


def test_the_log_names_each_path_that_rows_wait_for_once(caplog):
    for name in ("lost", "lost", "gone_as_well"):
        given = calls.noop.enqueue()
        Task.objects.filter(result_id=given.id).update(task_path=f"tests.tasks.calls.{name}")
    work_off()
    said = [text for text in caplog.messages if "waits for code that has it" in text]
    assert len(said) == 2
    assert "calls.lost cannot be imported" in said[0]
    assert "calls.gone_as_well cannot be imported" in said[1]


def test_a_queue_that_was_closed_keeps_no_result_from_being_read():
    two = {"default": {"BACKEND": PATH, "QUEUES": ["default", "other"]}}
    with override_settings(TASKS=two):
        given = calls.noop.using(queue_name="other").enqueue()
        work_off()
    assert calls.noop.get_result(given.id).status == Status_.SUCCESSFUL


@pytest.fixture
def heard():
    """(signal's name, sender, status) as they come."""
    told = []
    names = "task_started", "task_finished"
    receivers = []
    for name in names:

        def hear(sender, task_result, name=name, **_):
            told.append((name, sender.__name__, str(task_result.status)))
            assert task_result.enqueued_at is not None
            raise RuntimeError("a receiver's fault")

        receivers.append(hear)
        getattr(compat.signals, name).connect(hear)
    yield told
    for name, hear in zip(names, receivers, strict=True):
        getattr(compat.signals, name).disconnect(hear)


def test_the_frameworks_signals_are_sent(heard):
    assert ran(calls.add, 1).status == Status_.SUCCESSFUL
    assert ran(calls.fail).status == Status_.FAILED
    assert heard == [
        ("task_started", "DatabaseBackend", "RUNNING"),
        ("task_finished", "DatabaseBackend", "SUCCESSFUL"),
        ("task_started", "DatabaseBackend", "RUNNING"),
        ("task_finished", "DatabaseBackend", "FAILED"),
    ]


def test_a_row_that_waits_for_its_code_is_not_told_to_have_started(heard):
    calls.noop.enqueue()
    Task.objects.update(task_path="nowhere.at.all")
    work_off()
    assert heard == []


def test_a_task_that_a_person_buried_has_failed_with_a_reason():
    given = calls.noop.enqueue()
    Task.objects.bury()
    given.refresh()
    assert given.status == Status_.FAILED
    assert given.errors[0].exception_class is Bury
    assert "a person buried it" in given.errors[0].traceback


def test_a_task_whose_whole_worker_was_lost_knows_that_it_may_have_run_before():
    given = calls.who_am_i.enqueue()
    Task.objects.claim(owner="f" * 32 + ".1-1")
    reap.reap_owner(table_of(Task, "default"), "f" * 32 + ".")
    work_off()
    given.refresh()
    assert given.return_value["workers"] == 2
    assert given.attempts == 2


def test_the_frameworks_log_has_the_error(caplog):
    with caplog.at_level(logging.INFO, logger=compat.NAME):
        ran(calls.fail)
    said = [one for one in caplog.records if one.name == compat.NAME]
    assert [one.levelname for one in said][-1] == "ERROR"
    assert said[-1].exc_info[0] is ValueError


def test_coroutines_run_next_to_each_other(database_url, log):
    results = [calls.meet.enqueue(log, 20) for _ in range(20)]
    with worker(database_url, *TABLES, "--coroutines", "20") as process:
        wait_until(lambda: lines(log).count("all are here") == 20)
        wait_until(lambda: not AsyncTask.objects.exclude(status=Status.DONE).exists())
        assert "Traceback" not in process.stderr
    for one in results:
        one.refresh()
    assert {one.return_value for one in results} == {20}


@pytest.mark.parametrize("task", [calls.async_fail, calls.async_second_time_lucky])
def test_an_async_task_has_the_same_outcomes(task):
    given = task.enqueue()
    with virtual_clock() as clock, InlineWorker(*TABLES, clock=clock) as worker:
        worker.drain()
    given.refresh()
    if task is calls.async_fail:
        assert given.errors[0].exception_class is ValueError
        assert given.status == Status_.FAILED
    else:
        assert (given.return_value, given.attempts) == (2, 2)
        [row] = AsyncTask.objects.all()
        assert row.progress["done"] == 1


def test_what_coroutines_on_the_loop_raise_ends_no_worker(database_url):
    given = [calls.async_be_rude.enqueue(), calls.async_cancel.enqueue()]
    good = calls.slow_double.enqueue(2)
    with worker(database_url, *TABLES, "--coroutines", "1") as process:
        wait_until(lambda: calls.slow_double.get_result(good.id).is_finished, seconds=60)
        wait_until(lambda: not AsyncTask.objects.filter(status=Status.CLAIMED).exists())
        assert "died" not in process.stderr
    for one, kind in zip(given, [calls.Rude, asyncio.CancelledError], strict=True):
        one.refresh()
        assert [error.exception_class for error in one.errors] == [kind]


def test_a_function_that_became_a_coroutine_function_and_back_runs():
    plain, later = calls.add.enqueue(1), calls.slow_double.enqueue(4)
    Task.objects.update(task_path=calls.slow_double.module_path)
    AsyncTask.objects.update(task_path=calls.add.module_path)
    work_off()
    assert Task.objects.get(result_id=plain.id).return_value == 2
    assert AsyncTask.objects.get(result_id=later.id).return_value == 4


def test_an_async_task_that_this_code_has_not_waits():
    calls.slow_double.enqueue(4)
    AsyncTask.objects.update(task_path="nowhere.at.all")
    work_off()
    [row] = AsyncTask.objects.all()
    assert (row.status, row.attempts) == (Status.DELAYED, 0)


def test_a_coroutine_function_may_be_exactly_once():
    given = calls.async_pay.enqueue(8)
    work_off()
    given.refresh()
    assert given.return_value == 8
    assert list(Effect.objects.values_list("job", flat=True)) == [8]


def test_the_frameworks_log_tells_of_each_task(caplog):
    with caplog.at_level(logging.INFO, logger=compat.NAME):
        found = ran(calls.add.using(priority=7), 1)
    said = [one.getMessage() for one in caplog.records if one.name == compat.NAME]
    told = f"Task id={found.id} path={calls.add.module_path} state="
    assert said == [f"{told}{state}" for state in ("RUNNING", "SUCCESSFUL")]


def test_a_log_for_errors_only_has_the_errors(caplog):
    with caplog.at_level(logging.ERROR, logger=compat.NAME):
        ran(calls.add, 1)
        ran(calls.fail)
    [said] = [one for one in caplog.records if one.name == compat.NAME]
    assert said.exc_info[0] is ValueError


def test_a_log_that_was_disconnected_says_nothing(caplog):
    log = compat.signals.log_task_started
    assert compat.signals.task_started.disconnect(log)
    try:
        with caplog.at_level(logging.INFO, logger=compat.NAME):
            ran(calls.add, 1)
    finally:
        compat.signals.task_started.connect(log)
    said = [one.getMessage() for one in caplog.records if one.name == compat.NAME]
    assert [one.rpartition("=")[2] for one in said] == ["SUCCESSFUL"]


def test_a_killed_workers_task_runs_again(database_url, log):
    given = calls.sleep.enqueue(log, 10)
    with worker(database_url, "dbqueue_tasks.task") as process:
        wait_for_lines(log, 1)
        [child] = process.children()
        os.kill(child, signal.SIGKILL)
        killed = time.monotonic()
        wait_for_lines(log, 2)
        print(f"it ran again {time.monotonic() - killed:.2f} s after the kill")
        wait_for_lines(log, 3)
        wait_until(lambda: calls.sleep.get_result(given.id).status == Status_.SUCCESSFUL)
    assert lines(log) == ["started", "started", "ended"]
    given.refresh()
    assert given.attempts == 2
    assert len(given.worker_ids) == 2


def test_a_worker_serves_the_databases_that_tasks_name():
    named = {"default": {"BACKEND": PATH}, "other": {"BACKEND": PATH, "OPTIONS": {"database": "x"}}}
    with override_settings(TASKS=named), virtual_alias("x"):
        served = {(one.label, one.using) for one in all_served()}
    assert served >= {(label, using) for label in TABLES for using in ("default", "x")}


def test_what_a_hand_wrote_into_a_row_stops_no_worker():
    calls.add.enqueue(1)
    overwrite(rows()[0], args="no list")
    good = calls.add.enqueue(2)
    work_off()
    good.refresh()
    assert good.return_value == 2
    assert rows()[0].status == Status.BURIED


def test_failed_tasks_are_kept_for_as_long_as_is_asked(settings, monkeypatch):
    ran(calls.fail)
    ran(calls.add, 1)
    overwrite(rows()[0], finished_at=timezone.now() - timedelta(days=3))
    work_off()
    assert len(rows()) == 2
    monkeypatch.setattr(sweep, "SWEEP_SECONDS", 0.0)
    settings.DBQUEUE = {"TASK_KEEP_FAILED": 86_400}
    pruner = reaper.MAINTENANCE["dbqueue_tasks.task"]
    table = table_of(Task, "default")
    wait_until(lambda: pruner(table) or len(rows()) == 1)
    assert [row.task_path for row in rows()] == ["tests.tasks.calls.add"]


def test_rows_are_kept_for_two_weeks():
    ran(calls.noop)
    [row] = rows()
    assert timedelta(days=13) < row.retry_at - row.finished_at < timedelta(days=15)
    assert json.dumps(row.return_value) == "null"
