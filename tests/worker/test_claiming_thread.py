"""What a child's claiming thread does with what it has claimed, until a runner takes it."""

import time

import pytest
from django.db import connection
from django.db.utils import InterfaceError

from django_dbqueue.fields import DbNow
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from django_dbqueue.worker import reconcile
from tests.kit.jobs import fresh, overwrite
from tests.kit.processes import lines
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def start():
    """A worker of notes whose parts the test moves."""
    workers = []

    def start(*arguments):
        worker = InlineWorker("queueapp.Note", *arguments)
        worker.beat()
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.close()


def make(count, **columns):
    return [Note.objects.create(**columns) for _ in range(count)]


def turn(worker):
    """One turn of the claimer, which looks for new jobs; how many are claimed afterwards."""
    worker.consumer.claimer.scheduler.look_now()
    worker.claim()
    return Note.objects.claimed().count()


def run(worker):
    while len(worker.consumer.buffer):
        worker.take(worker.consumer.buffer.get())
    worker.record()


def test_a_paused_child_gives_back_what_no_runner_has_taken(start):
    jobs, worker = make(3), start()
    assert turn(worker) == 3
    worker.shared.paused = True
    assert turn(worker) == 0
    assert [fresh(job).attempts for job in jobs] == [0, 0, 0]
    worker.shared.paused = False
    assert turn(worker) == 3


def test_what_no_runner_takes_for_some_seconds_is_left_to_others(start):
    make(2)
    worker = start()
    assert turn(worker) == 2
    wait(worker, 1)
    assert turn(worker) == 2
    wait(worker, 10)
    assert turn(worker) == 0


def wait(worker, seconds):
    """As if the buffer had been filled so long ago."""
    worker.consumer.claimer._filled_at = time.monotonic() - seconds


def test_what_was_given_back_may_be_claimed_again_within_max_jobs(start):
    jobs, worker = make(3), start("--max-jobs", "2")
    assert turn(worker) == 2
    worker.shared.paused = True
    assert turn(worker) == 0
    worker.shared.paused = False
    assert turn(worker) == 2
    run(worker)
    assert turn(worker) == 0
    assert sorted(fresh(job).status for job in jobs) == [Status.READY, Status.DONE, Status.DONE]


def test_what_was_given_back_is_not_started_where_the_answer_was_lost_and_another_has_it(
    start, log
):
    [job] = make(1, log=log)
    worker = start()
    turn(worker)
    worker.shared.paused = True
    with connection.execute_wrapper(lose_the_answer_of_a_give_back):
        assert turn(worker) == 0
    worker.shared.paused = False
    [theirs] = Note.objects.claim()
    run(worker)
    assert not lines(log)
    assert fresh(job).owner == theirs.owner


def lose_the_answer_of_a_give_back(execute, sql, params, many, context):
    found = execute(sql, params, many, context)
    if "UPDATE" in sql and "attempts - 1" in sql:
        raise InterfaceError("the line is dead")
    return found


def test_what_it_could_not_give_back_is_started_after_all(start, log):
    [job] = make(1, log=log)
    worker = start()
    turn(worker)
    worker.shared.paused = True
    with connection.execute_wrapper(refuse_a_give_back):
        assert turn(worker) == 1
    worker.shared.paused = False
    run(worker)
    assert len(lines(log)) == 1
    assert fresh(job).status == Status.DONE


def refuse_a_give_back(execute, sql, params, many, context):
    if "UPDATE" in sql and "attempts - 1" in sql:
        raise InterfaceError("the line is dead")
    return execute(sql, params, many, context)


def test_what_a_claim_took_whose_answer_was_lost_is_given_back(start):
    [job] = make(1)
    worker = start()
    with connection.execute_wrapper(lose_the_answer_of_a_claim):
        assert turn(worker) == 1
    lost = fresh(job).owner
    assert turn(worker) == 1
    assert fresh(job).owner != lost
    assert fresh(job).attempts == 1


def lose_the_answer_of_a_claim(execute, sql, params, many, context):
    found = execute(sql, params, many, context)
    if "UPDATE" in sql and "attempts = " in sql:
        if connection.vendor == "sqlite":
            context["cursor"].fetchall()  # the statement is over
        raise InterfaceError("the line is dead")
    return found


def test_all_that_a_lost_claim_took_is_given_back_however_much_it_was(start):
    Note.objects.bulk_create(Note() for _ in range(600))
    worker = start("--batch-size", "600")
    with connection.execute_wrapper(lose_the_answer_of_a_claim):
        assert turn(worker) == 600
    worker.consumer.claimer.reconciler.settle()
    assert Note.objects.claimed().count() == 0


def test_what_a_worker_does_not_know_that_it_holds_is_given_back_after_a_reconnect(start):
    """As after a failover to a server that had not heard of the last commits."""
    make(3)
    worker = start("--batch-size", "2")
    assert turn(worker) == 2
    run(worker)
    # MariaDB takes any two of them.
    mine, forgotten = Note.objects.done().first(), Note.objects.ready().get()
    hold_again(mine, forgotten)
    worker.consumer.claimer.reconciler.settle()
    assert Note.objects.claimed().count() == 2
    connection.close()
    turn(worker)
    assert {fresh(job).attempts for job in (mine, forgotten)} == {1}
    wait_until(lambda: [turn(worker), run(worker)] and Note.objects.done().count() == 3)


def test_so_is_what_was_long_compared_before_the_reconnect(start, monkeypatch):
    """After a failover to a server that is minutes behind."""
    monkeypatch.setattr(reconcile, "COMPARE_SECONDS", 0.0)
    make(2)
    worker = start()
    assert turn(worker) == 2
    run(worker)
    turn(worker)
    hold_again(*Note.objects.done())
    turn(worker)
    assert Note.objects.claimed().count() == 2
    connection.close()
    wait_until(lambda: [turn(worker), run(worker)] and Note.objects.done().count() == 2)


def hold_again(*jobs):
    """Rows that are claimed by this worker, and of which it knows nothing."""
    owner = fresh(jobs[0]).owner
    for job in jobs:
        overwrite(job, status=1, owner=owner, attempts=1, retry_at=DbNow(plus=300))


def test_what_it_holds_stays_with_it_after_a_reconnect(start):
    """In the buffer, with an outcome that cannot be written, or waiting to be given back."""
    make(4)
    worker = start("--batch-size", "3")
    turn(worker)
    owners = held()
    worker.take(worker.consumer.buffer.get())
    worker.consumer.finisher.locked_tables = frozenset({("default", "queueapp.note")})
    worker.take(worker.consumer.buffer.get())
    worker.consumer.finisher.locked_tables = frozenset()
    assert worker.consumer.in_hand() >= owners
    connection.close()
    worker.consumer.claimer.session.prepare()
    worker.consumer.claimer.reconciler.settle()
    assert held() == owners


def held():
    return {(job.owner, job.pk) for job in Note.objects.claimed()}


def test_a_worker_knows_that_it_is_empty_only_by_a_look_after_its_last_job(start):
    make(1, action="enqueue")
    worker = start("--stop-when-empty")
    claimer = worker.consumer.claimer
    assert turn(worker) == 1
    turn(worker)  # nothing is ready, but a job is under way
    run(worker)
    assert claimer.empty_for() < 0
    assert turn(worker) == 1
    run(worker)
    turn(worker)
    assert claimer.empty_for() >= 0
