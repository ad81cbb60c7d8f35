"""A table that is gone, or a row that somebody has locked, keeps no other table's jobs waiting."""

import pytest
from django.db import OperationalError, connection

from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from django_dbqueue.worker import claimer, reconcile
from tests.kit.jobs import (
    column_gone,
    fresh,
    lifecycle_of,
    row_locked,
    table_gone,
    table_locked,
)
from tests.kit.waiting import wait_until
from tests.queueapp.models import Fleeting, Note
from tests.worker.test_claiming_thread import lose_the_answer_of_a_claim

pytestmark = pytest.mark.usefixtures("db_rows")
has_row_locks = pytest.mark.skipif(
    connection.vendor == "sqlite", reason="its locks are the whole database's"
)


@pytest.fixture
def worker(monkeypatch):
    """It serves two tables, compares its claims each turn, and gives back what waits at all."""
    monkeypatch.setattr(reconcile, "COMPARE_SECONDS", 0.0)
    monkeypatch.setattr(reconcile, "LOCKED_SECONDS", 0.1)
    monkeypatch.setattr(claimer, "HOLD_SECONDS", 0.0)
    one = InlineWorker("queueapp.Note", "queueapp.Fleeting")
    one.beat()
    yield one
    one.close()


def turn(worker):
    worker.consumer.claimer.scheduler.look_now()
    worker.claim()


def runs_others(worker):
    """Whether jobs of the other table are claimed and run, turn by turn."""
    for _ in range(2):
        job = Fleeting.objects.create()

        def has_run(job=job):
            turn(worker)
            while len(worker.consumer.buffer):
                worker.take(worker.consumer.buffer.get())
            worker.record()
            return not Fleeting.objects.filter(pk=job.pk).exists()

        wait_until(has_run)
    return True


def claims(worker, note):
    wait_until(lambda: [turn(worker)] and fresh(note).status == Status.CLAIMED)


def nothing(worker, note):
    """A job has run, and the table is compared once more."""
    claims(worker, note)
    worker.take(worker.consumer.buffer.get())
    worker.record()


def no_answer(worker, note):
    with connection.execute_wrapper(lose_the_answer_of_a_claim):
        claims(worker, note)


@pytest.mark.parametrize("left", [nothing, claims, no_answer])
def test_a_table_that_goes_away_under_a_worker_stops_no_other(worker, left):
    note = Note.objects.create()
    left(worker, note)
    ready, claimers = Note.objects.create(), worker.consumer.claimers
    # As if its lock had been met, before it went.
    claimers.all[0].reconciler.put_off.add(("default", "queueapp.note"))
    with table_gone(Note):
        assert runs_others(worker)
        wait_until(lambda: [turn(worker)] and not claimers.are_waiting)
    jobs = note, ready
    wait_until(lambda: runs_others(worker) and all(fresh(job).finished_at for job in jobs))
    assert [fresh(job).attempts for job in jobs] == [1, 1]


@pytest.mark.parametrize("order", [(), ("--queue=first,default",), ("--queue=first=9,default=1",)])
def test_a_table_that_lost_a_column_stops_no_other_though_it_comes_first(order):
    note = Note.objects.create(queue="first")
    with InlineWorker("queueapp.Note", "queueapp.Fleeting", *order) as worker:
        worker.beat()
        with column_gone(Note, "text"):
            assert runs_others(worker)
            worker.consumer.claimer.reconciler.settle()
            left = lifecycle_of(note)
        assert (left["status"], left["attempts"], left["errors"]) == (Status.READY, 0, [])
        wait_until(lambda: runs_others(worker) and fresh(note).finished_at)


@has_row_locks
@pytest.mark.parametrize("left", [claims, no_answer])
def test_the_lock_of_one_row_stops_no_other_table(worker, left, monkeypatch):
    """It is given back soon after the lock, before its claim ends and the attempt is charged."""
    monkeypatch.setattr(reconcile, "LOCKED_SECONDS", 3600.0)
    note = Note.objects.create()
    left(worker, note)
    with row_locked(note):
        assert runs_others(worker)
    wait_until(lambda: runs_others(worker) and fresh(note).finished_at)
    assert fresh(note).attempts == 1


@has_row_locks
def test_a_worker_that_stops_when_empty_waits_for_what_is_locked(worker):
    note = Note.objects.create()
    claims(worker, note)
    consumer = worker.consumer
    with row_locked(note):
        wait_until(lambda: [turn(worker)] and not consumer.claimers.are_busy)
        for _ in range(3):
            turn(worker)
            assert consumer.claimers.are_waiting
            assert consumer.claimers.empty_for() < 0
    wait_until(lambda: runs_others(worker) and fresh(note).finished_at)
    assert not consumer.claimers.are_waiting


@has_row_locks
def test_the_lock_of_a_table_is_not_waited_for_by_each_job_that_is_to_be_given_back(worker):
    notes = [Note.objects.create() for _ in range(40)]
    worker.consumer.claimer.batch = 40
    wait_until(lambda: [turn(worker)] and Note.objects.claimed().count() == 40)
    buffer, waits = worker.consumer.buffer, []

    def note(execute, sql, *rest):
        try:
            return execute(sql, *rest)
        except OperationalError:
            waits.append(sql)
            raise

    with table_locked(Note), connection.execute_wrapper(note):
        buffer.unstarted.extend(buffer.withdraw())
        assert runs_others(worker)
    assert len([sql for sql in waits if sql.startswith("UPDATE") and "attempts - 1" in sql]) <= 2
    wait_until(lambda: runs_others(worker) and all(fresh(note).finished_at for note in notes))
    assert {fresh(note).attempts for note in notes} == {1}
