"""Exactly once at the edges: what projects hang on a job, loops of one's own, jobs that expired."""

import sqlite3
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.db.models import QuerySet
from django.db.transaction import TransactionManagementError
from django.utils import timezone

from django_dbqueue import events
from django_dbqueue.dialects import ErrorKind
from django_dbqueue.fields import DbNow
from django_dbqueue.models import Receipt
from django_dbqueue.models.exactly_once import ExactlyOnceRun, Expired
from django_dbqueue.models.receipt import KEPT, receipt_of
from django_dbqueue.states import Status
from django_dbqueue.worker.buffer import Buffer, Item
from django_dbqueue.worker.exactly_once import WorkerExactlyOnceRun
from django_dbqueue.worker.finisher import Finisher
from django_dbqueue.worker.runner import Runner
from django_dbqueue.worker.session import Session
from django_dbqueue.worker.shared_memory import SharedMemory
from tests.kit.effects_elsewhere import apart, claim, effects, jobs_aside, once, state
from tests.kit.jobs import claimed, fresh, table
from tests.queueapp.models import Effect, Recited, Transfer

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def jobs(tmp_path):
    with jobs_aside(tmp_path) as manager:
        yield manager


def test_a_coroutine_runs_in_ones_own_loop():
    job = claimed(Recited)
    job.run_exactly_once()
    assert (fresh(job).status, effects()) == (Status.DONE, [job.pk])


def test_a_run_that_yields_fails_in_ones_own_loop(monkeypatch):
    def run(self):
        yield Effect.objects.create(job=self.pk)

    monkeypatch.setattr(Transfer, "run", run)
    job = claimed(Transfer)
    with pytest.raises(TypeError):
        job.run_exactly_once()
    assert (fresh(job).status, effects()) == (Status.CLAIMED, [])


def test_what_follows_the_commit_does_not_end_ones_own_loop():
    job = claimed(Transfer, action="break_hook")
    job.run_exactly_once()
    assert (fresh(job).status, effects()) == (Status.DONE, [job.pk])


def test_what_others_hang_on_a_job_stays_theirs(monkeypatch):
    job = claimed(Transfer, action="fail")
    job.span = {"lock": threading.Lock()}
    monkeypatch.setattr(Transfer, "__str__", lambda self: self.no_such_thing)
    one = WorkerExactlyOnceRun(table(Transfer), job, job.run)
    before = job.span
    with pytest.raises(RuntimeError):
        one.run()
    assert job.span is before
    assert job.data == {}


def test_an_error_is_judged_by_the_database_that_raised_it(jobs):
    jobs.create()
    one = once(claim(jobs))
    error = OperationalError("no such table: elsewhere")
    error.__cause__ = sqlite3.OperationalError("no such table: elsewhere")
    assert one.error_kind(error) is None
    locked = OperationalError("database is locked")
    locked.__cause__ = sqlite3.OperationalError("database is locked")
    locked.__cause__.sqlite_errorname = "SQLITE_BUSY"
    assert one.error_kind(locked) is ErrorKind.AGAIN


def test_a_commit_of_the_last_try_whose_answer_was_lost_is_found_by_its_receipt(jobs, monkeypatch):
    jobs.create()
    job = claim(jobs)
    one = once(job)
    original = one.effects._commit  # type: ignore[attr-defined]

    def lose():
        original()
        monkeypatch.undo()
        raise OperationalError("lost") from sqlite3.OperationalError("neither this nor that")

    monkeypatch.setattr(one.effects, "_commit", lose)
    one.run_and_complete()
    assert (state(job), effects()) == (Status.DONE, [job.pk])


def test_an_expired_job_whose_effects_are_there_is_completed(jobs):
    jobs.create()
    job = claim(jobs)
    once(job).run()
    job.has_expired = True
    late = WorkerExactlyOnceRun(apart(), job, lambda: pytest.fail("it ran"))
    late.run()
    assert late.has_committed


def test_an_expired_job_without_effects_is_not_run(jobs):
    jobs.create()
    job = claim(jobs)
    job.has_expired = True
    with pytest.raises(Expired):
        WorkerExactlyOnceRun(apart(), job, lambda: pytest.fail("it ran")).run()


def test_an_expired_job_is_no_error_to_those_who_follow_runs(jobs, monkeypatch):
    jobs.create(expires_at=timezone.now() + timedelta(hours=1))
    job, told = claim(jobs), list[Exception | None]()
    job.has_expired = True
    monkeypatch.setattr(events.running, "receivers", [lambda _table, _jobs: told.append])
    shared, finisher = SharedMemory(1), Finisher(Session(set()), 1, lambda: None)
    runner = Runner(0, Buffer(1), finisher, shared, 10, threading.Event(), lambda: None)
    runner.life(Item(apart(), job.claim_owner, [job], 0.0, 0))
    assert (told, jobs.get().state, effects()) == ([None], "expired", [])


@pytest.mark.parametrize("has_effects", [True, False])
def test_a_loop_of_ones_own_completes_an_expired_job_only_if_its_effects_are_there(
    jobs, has_effects
):
    jobs.create(expires_at=timezone.now() + timedelta(hours=1))
    job = claim(jobs)
    if has_effects:
        once(job).run()
    job.has_expired = True
    once(job, lambda: pytest.fail("it ran")).run_and_complete()
    row = jobs.get()
    assert row.state == ("done" if has_effects else "expired")
    assert len(effects()) == has_effects


def test_the_same_key_in_another_database_is_another_job(jobs):
    jobs.create()
    [twin] = [Transfer.objects.create(pk=jobs.get().pk)]
    QuerySet(Transfer).update(created_at=jobs.get().created_at)
    here = replace(table(Transfer), policy=apart().policy)
    there, own = receipt_of(apart(), jobs.get()), receipt_of(here, twin)
    assert there.digest != own.digest
    there.save(force_insert=True)
    Receipt.objects.update(written_at=DbNow(plus=-KEPT - 60))
    QuerySet(Transfer).update(status=Status.DONE)
    assert Receipt.objects.prune(here) == 0


def test_a_connection_out_of_autocommit_is_refused():
    job = claimed(Transfer)
    connection.set_autocommit(False)
    try:
        with pytest.raises(TransactionManagementError):
            ExactlyOnceRun(table(Transfer), job, job.run).run()
    finally:
        connection.rollback()
        connection.set_autocommit(True)
    assert effects() == []
