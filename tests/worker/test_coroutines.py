"""Many coroutines at once on the event loop of a child, and what is promised of any job."""

import asyncio
import os
import signal
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from django_dbqueue.worker.buffer import Item
from django_dbqueue.worker.coroutine_run import CoroutineRun
from django_dbqueue.worker.event_loop import JobLoop
from django_dbqueue.worker.shared_memory import SharedMemory
from tests.kit.jobs import claimed, fresh, row_locked, waiting_for_locks
from tests.kit.processes import QUICK, give_back, open_gate, skip_where_coverage_is_measured, worker
from tests.kit.run_log import count, runs
from tests.kit.waiting import wait_until
from tests.queueapp.models import Effect, Fetched, FetchedEach, Gathered, Note, Recited

pytestmark = pytest.mark.usefixtures("db_rows")

UNCHARGED = (0, [])


def fetched(log, number=1, **columns):
    return [Fetched.objects.create(log=log, **columns) for _ in range(number)]


def at_gate(log, number):
    """Jobs that wait, all at once, until the gate is open."""
    return fetched(log, number, action="wait_at_gate")


def charge(job):
    job = fresh(job)
    return job.crashes, job.errors


def wait_for(log, event, number):
    wait_until(lambda: Path(log).exists() and count(log, event) >= number)


def all_done(jobs):
    keys = [job.pk for job in jobs]
    return Fetched.objects.done().filter(pk__in=keys).count() == len(keys)


def run_of(job, **policy):
    table = table_of(Fetched, "default")
    table = replace(table, policy=replace(table.policy, **policy))
    slot = SharedMemory(1, coroutines=1).coroutine_slot(0)
    return CoroutineRun(Item(table, job.claim_owner, [job], 0.0, 0), slot)


# --- at once --------------------------------------------------------------------------------------


def test_many_wait_at_once_in_one_child_next_to_plain_jobs(database_url, log):
    waiting = at_gate(log, 200)
    with worker(database_url, "--coroutines", "200", "--stop-when-empty") as process:
        # None of them can end before all have started, and this one before any has ended.
        wait_for(log, "start", 200)
        plain = Note.objects.create()
        wait_until(lambda: fresh(plain).status == Status.DONE)
        assert count(log, "end") == 0
        open_gate(log)
        assert process.end(60) == 0
    assert all_done(waiting)
    assert {len(found) for found in runs(log).values()} == {1}
    assert len({run.pid for [run] in runs(log).values()}) == 1


def test_no_more_than_that_many_run_at_once(database_url, log):
    fetched(log, 40, seconds=0.02)
    with worker(database_url, "queueapp.Fetched", "--coroutines", "3", "--stop-when-empty") as one:
        assert one.end(60) == 0
    found = [run for [run] in runs(log).values()]
    most = max(sum(run.start <= other.start < run.end for run in found) for other in found)
    assert (len(found), most) == (40, 3)


def test_batches_and_transactions_of_their_own_stay_with_the_threads(database_url, log):
    Gathered.objects.bulk_create([Gathered(log=log) for _ in range(5)])
    recited = Recited.objects.create()
    tables = "queueapp.Gathered", "queueapp.Recited"
    with worker(database_url, *tables, "--coroutines", "5", "--stop-when-empty") as process:
        assert process.end(60) == 0
    assert Gathered.objects.done().count() == 5
    assert Effect.objects.filter(job=recited.pk).count() == 1


def test_no_more_jobs_run_than_may_be_whatever_they_are(database_url, log):
    fetched(log, 5)
    Note.objects.bulk_create([Note() for _ in range(5)])
    served = "queueapp.Fetched", "queueapp.Note"
    with worker(database_url, *served, "--coroutines", "4", "--max-jobs", "7") as process:
        assert process.end(60) == 12
    assert Fetched.objects.done().count() + Note.objects.done().count() == 7
    assert min(Fetched.objects.done().count(), Note.objects.done().count()) > 0


# --- what a job does, and how it ends -------------------------------------------------------------


def test_a_job_ends_as_its_code_does_and_sees_itself_alone(database_url, log):
    [failed] = fetched(log, action="fail")
    exited = [*fetched(log, action="exit"), *fetched(log, action="exit_in_a_task")]
    [cancelled] = fetched(log, action="cancel_itself")
    past = timezone.now() - timedelta(seconds=60)
    good = [*fetched(log, action="complete"), *fetched(log, action="kill", expires_at=past)]
    looks = fetched(log, 5, action="look")
    [saved] = fetched(log, action="orm", text="written")
    [released] = fetched(log, action="release")
    [orphan] = fetched(log, action="look_at_sitter", sitter_id=404)
    [each] = [FetchedEach.objects.create(text="fit")]
    unfit = FetchedEach.objects.create(text="unfit")
    served = "queueapp.Fetched", "queueapp.FetchedEach"
    with worker(database_url, *served, "--coroutines", "20", "--stop-when-empty") as process:
        assert process.end(60) == 0
    assert fresh(failed).last_error == "LookupError: nothing was fetched"
    assert "do_fail" in fresh(failed).errors[0]["traceback"]
    assert [fresh(job).last_error for job in exited] == ["Exited: it raised SystemExit(7)"] * 2
    assert "CancelledError" in fresh(cancelled).last_error
    assert fresh(orphan).last_error == "person 404 does not exist any more"
    assert fresh(orphan).status == Status.BURIED
    assert fresh(released).status == Status.DELAYED
    assert all_done([*good, *looks, saved])
    assert {fresh(job).text for job in looks} == {"0 0 True"}
    assert fresh(saved).text == "written, seen and saved"
    assert (fresh(each).answer, fresh(each).status) == ({"text": "fit"}, Status.DONE)
    assert (fresh(unfit).status, len(fresh(unfit).errors)) == (Status.BURIED, 1)
    assert "died" not in process.stderr
    assert "may run twice" not in process.stderr  # of those that have ended themselves


@pytest.mark.parametrize("action", ["leave_a_task", "begin_late"])
def test_what_a_job_has_begun_ends_with_it(database_url, log, action):
    [job] = fetched(log, action=action)
    with worker(database_url, "queueapp.Fetched", "--coroutines", "5"):
        wait_until(lambda: all_done([job]))
        assert count(log, "cleaned") == 1


def test_one_whose_code_cannot_be_called_fails():
    job = claimed(Fetched)
    job.run = lambda needed: needed
    with asyncio.Runner(loop_factory=lambda: JobLoop(SharedMemory(1, coroutines=1))) as runner:
        one, context = run_of(job), copy_context()
        code = context.run(one.begin, runner.get_loop(), context)
        runner.run(asyncio.wait_for(asyncio.wait([code]), 10))
    assert isinstance(one.error(), TypeError)


@pytest.mark.parametrize(
    ("policy", "at_once"),
    [({}, True), ({"finish": "each"}, False), ({"results": ("text",)}, False)],
)
def test_one_whose_end_asks_a_database_does_not_keep_the_loop_waiting(policy, at_once):
    assert run_of(claimed(Fetched), **policy).ends_at_once(None) == at_once


@pytest.mark.skipif(connection.vendor == "sqlite", reason="its locks are the whole database's")
def test_the_lock_of_one_s_row_keeps_no_query_and_no_outcome_of_others_waiting(database_url, log):
    locked = FetchedEach.objects.create(text=f"{log}.gate")
    served = "queueapp.Fetched", "queueapp.FetchedEach"
    with worker(database_url, *served, "--coroutines", "5"):
        wait_until(lambda: fresh(locked).status == Status.CLAIMED)
        with row_locked(locked):
            open_gate(log)
            wait_until(waiting_for_locks, every=0.2)
            asking, other = fetched(log, action="orm"), FetchedEach.objects.create()
            wait_until(lambda: all_done(asking), seconds=20)
            wait_until(lambda: fresh(other).status == Status.DONE, seconds=30)
        wait_until(lambda: fresh(locked).status == Status.DONE)
    assert fresh(locked).attempts == 1


def test_the_copy_of_one_that_forks_ends_with_it(database_url, log):
    skip_where_coverage_is_measured()
    jobs = [*fetched(log, action="fork"), *fetched(log, 3)]
    with worker(database_url, "queueapp.Fetched", "--coroutines", "4", "--stop-when-empty") as one:
        assert one.end(60) == 0
        assert one.stderr.count("has forked and ended twice") == 1
    assert all_done(jobs)
    assert "died" not in one.stderr


def test_what_is_left_open_on_a_connection_is_rolled_back_and_nobody_elses(database_url, log):
    [open_one] = fetched(log, action="leave_open", text="as it was")
    with worker(database_url, "queueapp.Fetched", "--coroutines", "2"):
        wait_until(lambda: all_done([open_one]))
        [look] = fetched(log, action="look_for_open")
        wait_until(lambda: all_done([look]))
    assert (fresh(open_one).text, fresh(look).text) == ("as it was", "False")


@pytest.mark.any_database
def test_a_worker_in_the_tests_own_process_runs_them_one_by_one(log, settings):
    settings.DBQUEUE = {"COROUTINES": 10}
    looks = fetched(log, 3, action="look")
    with InlineWorker("queueapp.fetched") as inline:
        assert inline.run() == 3
    assert {fresh(job).text for job in looks} == {"0 0 True"}


def test_one_that_cancels_all_tasks_cancels_itself_alone(database_url, log):
    waiting = at_gate(log, 5)
    with worker(database_url, "queueapp.Fetched", "--coroutines", "9") as process:
        wait_for(log, "start", 5)
        [one] = fetched(log, action="cancel_all")
        wait_until(lambda: fresh(one).status == Status.DELAYED)
        open_gate(log)
        wait_until(lambda: all_done(waiting))
        assert len(process.children()) == 1
    assert "CancelledError" in fresh(one).last_error
    assert {len(found) for found in runs(log).values()} == {1}


# --- time to run ----------------------------------------------------------------------------------


def test_one_over_its_time_is_cancelled_and_no_other_one_is(database_url, log):
    others = at_gate(log, 5)
    [late] = fetched(log, action="clean_up", time_to_run=1)
    [touching] = fetched(log, action="touch", time_to_run=5)
    with worker(database_url, "queueapp.Fetched", "--coroutines", "9") as process:
        wait_until(lambda: fresh(late).status == Status.DELAYED)
        wait_until(lambda: all_done([touching]))
        open_gate(log)
        wait_until(lambda: all_done(others))
        assert len(process.children()) == 1
    [error] = fresh(late).errors
    assert error["exception"] == "TimeToRunExceeded"
    assert "1 s was over" in error["message"]
    assert "do_clean_up" in error["traceback"]
    assert count(log, "cleaned") == 1
    assert len({run.pid for found in runs(log).values() for run in found}) == 1


@pytest.mark.parametrize("action", ["deafly_wait", "wait_in_a_thread"])
def test_one_that_cannot_be_cancelled_is_ended_with_its_child(database_url, log, action):
    others = fetched(log, 5, action="wait_at_gate")
    [late] = fetched(log, action=action, time_to_run=1)
    with worker(database_url, "queueapp.Fetched", "--coroutines", "9"):
        wait_until(lambda: fresh(late).status == Status.DELAYED)
        wait_for(log, "start", 11)
        open_gate(log)
        wait_until(lambda: all_done(others))
    assert [error["exception"] for error in fresh(late).errors] == ["TimeToRunExceeded"]
    assert {len(runs(log)[job.pk]) for job in others} == {2}
    assert [charge(job) for job in [*others]] == [UNCHARGED] * 5


def test_who_holds_up_the_loop_is_named_and_pays_for_those_that_are_late_by_it(database_url, log):
    [brief] = fetched(log, action="block", text="1.8")
    with worker(database_url, "queueapp.Fetched", "--coroutines", "5") as process:
        wait_until(lambda: all_done([brief]))
        [victim] = fetched(log, action="wait_at_gate", time_to_run=6)
        wait_for(log, "start", 2)
        [holder] = fetched(log, action="block", text="600")
        wait_until(lambda: fresh(holder).status == Status.DELAYED)
        open_gate(log)
        wait_until(lambda: all_done([victim]))
    said = process.stderr
    for job in (brief, holder):
        assert said.count(f"queueapp.fetched {job.pk} has held up all coroutines for ") == 1
    assert "in do_block" in said
    assert "in _take_turn" not in said  # the stack begins with the job's own code
    assert [error["exception"] for error in fresh(holder).errors] == ["TimeToRunExceeded"]
    assert "do_block" in fresh(holder).errors[0]["traceback"]
    assert charge(victim) == UNCHARGED


# --- the end of a child ---------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["child", "worker"])
def test_all_run_again_when_it_is_killed_and_those_that_waited_are_not_charged(
    database_url, log, which
):
    waiting = at_gate(log, 50)
    served = "queueapp.Fetched", "--coroutines", "50"
    with worker(database_url, *served, **QUICK) as process:
        wait_for(log, "start", 50)
        if which == "child":
            os.kill(process.children()[0], signal.SIGKILL)
        else:
            process.send_group(signal.SIGKILL)
        with worker(database_url, *served, **QUICK):
            wait_for(log, "start", 100)
            open_gate(log)
            wait_until(lambda: all_done(waiting))
    charged = [job for job in waiting if charge(job) != UNCHARGED]
    # That of a child may have had its turn in that very moment.
    assert len(charged) <= (which == "child")
    others = [fresh(job) for job in waiting if job not in charged]
    assert {(job.attempts, job.losses) for job in others} == {(1, 1)}


@pytest.mark.parametrize("action", ["segfault", "segfault_in_a_thread"])
def test_a_crash_is_charged_to_who_had_its_turn_and_to_no_one_that_waited(
    database_url, log, action
):
    waiting = at_gate(log, 20)
    with worker(database_url, "queueapp.Fetched", "--coroutines", "30"):
        wait_for(log, "start", 20)
        [killer] = fetched(log, action=action)
        wait_until(lambda: fresh(killer).status == Status.BURIED)
        open_gate(log)
        wait_until(lambda: all_done(waiting))
    assert [error["exception"] for error in fresh(killer).errors] == ["WorkerLost"] * 3
    assert (len(runs(log)[killer.pk]), fresh(killer).losses) == (3, 0)
    charged = [job for job in waiting if charge(job) != UNCHARGED]
    # One that looks at the gate has its turn just as a thread crashes.
    assert len(charged) <= (action == "segfault_in_a_thread")


def test_one_that_kills_its_process_while_it_waits_is_buried_in_the_end(database_url, log):
    [killer] = fetched(log, action="kill_later")
    with worker(database_url, "queueapp.Fetched", "--coroutines", "3"):
        wait_until(lambda: fresh(killer).status == Status.BURIED)
    job = fresh(killer)
    assert (job.crashes, job.losses, len(runs(log)[job.pk])) == (3, 2, 5)


def test_on_term_those_that_have_not_begun_are_given_back(database_url, log):
    """The loop was held up when they were handed to it."""
    [holder] = fetched(log, action="block", text="6")
    served = "queueapp.Fetched", "--coroutines", "8", "--shutdown-timeout", "1"
    with worker(database_url, *served) as process:
        wait_for(log, "start", 1)
        waiting = fetched(log, 3)
        wait_until(lambda: all(fresh(job).status == Status.CLAIMED for job in waiting))
        process.send(signal.SIGTERM)
        process.end(60)
    give_back(database_url, process, Fetched)
    assert set(runs(log)) == {holder.pk}
    assert [(fresh(job).status, fresh(job).attempts) for job in waiting] == [(Status.READY, 0)] * 3
    assert [charge(job) for job in waiting] == [UNCHARGED] * 3


def test_on_term_they_may_end_and_what_does_not_is_cancelled_and_given_back(database_url, log):
    in_time = at_gate(log, 3)
    cancelled = fetched(log, 3, action="clean_up")
    [deaf] = fetched(log, action="deafly_wait")
    [plain] = [Note.objects.create(seconds=60)]
    served = "queueapp.Fetched", "queueapp.Note", "--coroutines", "8"
    with worker(database_url, *served, "--shutdown-timeout", "7") as process:
        wait_for(log, "start", 7)
        wait_until(lambda: fresh(plain).status == Status.CLAIMED)
        process.send(signal.SIGTERM)
        wait_until(lambda: "is stopping" in process.stderr)
        assert count(log, "cleaned") == 0
        open_gate(log)
        assert process.end(60) == 0
    were_left = [give_back(database_url, process, model) for model in (Fetched, Note)]
    assert all_done(in_time)
    assert (count(log, "cleaned"), count(log, "cancelled")) == (3, 1)
    for job in (*cancelled, deaf, plain):
        assert (fresh(job).status, fresh(job).attempts) == (Status.READY, 0)
        assert charge(job) == UNCHARGED
        assert fresh(job).losses == 0 or any(were_left)
