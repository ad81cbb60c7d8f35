"""Jobs that move by themselves: due ones, overdue ones, and those of workers that are gone."""

from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_dbqueue.exceptions import ClaimLost
from django_dbqueue.lifecycle import held, low_instants, promotion, reap
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.execute import rows
from django_dbqueue.lifecycle.held import CHUNK
from django_dbqueue.lifecycle.ready_queues import ready_queues
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.worker.session import Session
from tests.kit.jobs import (
    claim_one,
    claimed,
    fresh,
    lifecycle_of,
    overwrite,
    reap_overdue,
    reap_owner,
    reaper,
    row_locked,
    start_all,
    steal,
    table,
)
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


def ago(seconds=1.0):
    return timezone.now() - timedelta(seconds=seconds)


def overdue(**columns):
    job = claimed(**columns)
    overwrite(job, retry_at=ago())
    return job


def owned(owner="w1.1", count=1):
    Note.objects.bulk_create(Note() for _ in range(count))
    return claim(table(), "default", count, owner)


def just_after(monkeypatch, happening):
    """Let something happen between the reaper's look and its write."""
    look = rows

    def look_then(*args):
        found = look(*args)
        happening()
        return found

    for module in (low_instants, held):
        monkeypatch.setattr(module, "rows", look_then)


def test_a_due_job_becomes_ready_and_no_other():
    due, _ = Note.objects.enqueue(retry_at=ago())
    later, _ = Note.objects.enqueue(delay=60)
    running = overdue()
    assert promotion.promote(table()) == 1
    assert (fresh(due).status, fresh(due).retry_at) == (Status.READY, None)
    assert [fresh(later).status, fresh(running).status] == [Status.DELAYED, Status.CLAIMED]
    assert promotion.promote(table()) == 0


def test_where_no_job_is_due_nothing_is_written():
    Note.objects.enqueue(delay=60)
    with CaptureQueriesContext(connection) as queries:
        assert promotion.promote(table()) == 0
    assert not [one for one in queries if one["sql"].startswith("UPDATE")]


def test_many_due_jobs_are_promoted_in_chunks():
    Note.objects.bulk_create(Note(retry_at=ago()) for _ in range(CHUNK + 5))
    assert [promotion.promote(table()) for _ in range(3)] == [CHUNK, 5, 0]


def test_after_due_jobs_the_next_ones_are_not_kept_waiting_for_a_second():
    Note.objects.enqueue(retry_at=ago())
    done, wait = reaper().turn(lambda: True)
    assert done.promoted == 1
    assert wait <= 0.1


def test_a_job_that_was_put_off_after_the_look_is_not_promoted(monkeypatch):
    job, _ = Note.objects.enqueue(retry_at=ago())
    later = timezone.now() + timedelta(hours=1)
    just_after(monkeypatch, lambda: overwrite(job, retry_at=later))
    assert promotion.promote(table()) == 0
    assert (fresh(job).status, fresh(job).retry_at) == (Status.DELAYED, later)


def test_a_job_that_was_buried_after_the_look_is_not_promoted(monkeypatch):
    job, _ = Note.objects.enqueue(retry_at=ago())
    just_after(monkeypatch, lambda: Note.objects.all().bury())
    assert promotion.promote(table()) == 0
    assert fresh(job).status == Status.BURIED


def test_a_job_that_was_claimed_and_is_overdue_since_the_look_is_not_promoted(monkeypatch):
    job, _ = Note.objects.enqueue(retry_at=ago())
    just_after(
        monkeypatch,
        lambda: overwrite(job, status=Status.CLAIMED, owner="another.1", dequeued_time=ago(90)),
    )
    assert promotion.promote(table()) == 0
    assert (fresh(job).status, fresh(job).owner) == (Status.CLAIMED, "another.1")


def test_two_promoters_promote_every_job_once():
    Note.objects.bulk_create(Note(retry_at=ago()) for _ in range(400))
    assert sum(start_all(*[lambda: promotion.promote(table())] * 4)) == 400


def test_it_is_known_when_the_next_job_moves():
    assert promotion.next_moves(table()) == (None, None)
    job = claimed()
    assert promotion.next_moves(table()) == (None, pytest.approx(60, abs=5))
    overwrite(job, retry_at=ago(7))
    Note.objects.enqueue(delay=60)
    Note.objects.enqueue(delay=3600)
    assert promotion.next_moves(table()) == (pytest.approx(60, abs=5), pytest.approx(-7, abs=5))
    Note.objects.enqueue(retry_at=ago(9))
    assert promotion.next_moves(table())[0] == pytest.approx(-9, abs=5)


def test_an_overdue_job_has_failed():
    job = overdue()
    in_time = claimed()
    assert list(Note.objects.overdue()) == [job]
    assert reap_overdue(table()) == 1
    row = fresh(job)
    assert (row.status, row.owner, row.attempts, row.crashes) == (Status.DELAYED, None, 1, 0)
    assert row.retry_at > row.created_at
    assert "time to run" in row.last_error
    assert row.errors[0]["owner"] == job.owner
    with pytest.raises(ClaimLost):
        job.complete()
    assert fresh(in_time).status == Status.CLAIMED
    in_time.complete()


def test_an_overdue_job_without_attempts_left_is_buried():
    job = overdue()
    overwrite(job, attempts=3)
    assert reap_overdue(table()) == 1
    row = fresh(job)
    assert (row.status, row.retry_at) == (Status.BURIED, None)
    assert row.finished_at is not None


@pytest.mark.parametrize(
    "happening",
    [lambda job: job.touch(), lambda job: job.complete(), steal],
    ids=["touched", "completed", "claimed by another"],
)
def test_a_job_that_moved_on_after_the_look_is_not_overdue(monkeypatch, happening):
    job = overdue()
    after = []

    def happen():
        happening(job)
        after.append(lifecycle_of(job))

    just_after(monkeypatch, happen)
    assert reap_overdue(table()) == 0
    assert lifecycle_of(job) == after[0]


def test_two_reapers_end_an_overdue_claim_once():
    for _ in range(20):
        overdue()
    assert sum(start_all(*[lambda: reap_overdue(table())] * 4)) == 20
    assert {len(job.errors) for job in Note.objects.all()} == {1}


def test_the_jobs_of_an_owner_that_is_gone_come_back():
    jobs, others = owned("w1.1", 3), owned("w2.1", 2)
    overwrite(jobs[0], errors=[{"exception": "E", "message": "before"}])
    assert reap_owner(table(), "w1.", started=set()) == 3
    rows = [fresh(job) for job in jobs]
    assert {(r.status, r.owner, r.attempts, r.crashes) for r in rows} == {(0, None, 0, 0)}
    assert {(r.retry_at, r.dequeued_time) for r in rows} == {(None, None)}
    assert [len(r.errors) for r in rows] == [1, 0, 0]
    assert {fresh(job).owner for job in others} == {"w2.1"}


def test_a_job_that_had_started_is_charged_a_crash_but_no_attempt():
    started, waiting = owned(count=2)
    assert reap_owner(table(), "w1.", started={str(started.pk)}) == 2
    row = fresh(started)
    assert (row.status, row.attempts, row.crashes) == (Status.READY, 0, 1)
    assert row.errors[0]["exception"] == "WorkerLost"
    assert (fresh(waiting).crashes, fresh(waiting).errors) == (0, [])


def test_of_one_that_merely_waited_as_its_process_died_the_loss_is_counted():
    started, waited, waiting = owned(count=3)
    keys = {str(started.pk)}
    assert reap_owner(table(), "w1.", started=keys, waited={str(waited.pk)}) == 3
    found = [(row.crashes, row.losses) for row in map(fresh, (started, waited, waiting))]
    assert found == [(1, 0), (0, 1), (0, 0)]
    assert {fresh(job).attempts for job in (started, waited, waiting)} == {0}


def test_where_the_whole_worker_was_lost_none_of_its_jobs_is_charged():
    jobs = owned(count=2)
    assert reap_owner(table(), "w1.") == 2
    rows = [fresh(job) for job in jobs]
    assert {(row.status, row.attempts, row.crashes) for row in rows} == {(Status.READY, 0, 0)}
    assert [row.errors for row in rows] == [[], []]
    assert {row.losses for row in rows} == {1}


def test_ten_losses_of_its_worker_bury_no_job():
    Note.objects.create()
    for loss in range(10):
        [job] = claim(table(), "default", 1, f"w{loss}.1")
        assert (job.attempts, job.crashes, job.losses) == (1, 0, loss)
        assert reap_owner(table(), f"w{loss}.") == 1
    row = fresh(job)
    assert (row.status, row.losses, row.crashes) == (Status.READY, 10, 0)


def test_a_job_that_was_stopped_for_its_time_to_run_has_failed():
    late, waiting = owned(count=2)
    keys = {str(late.pk)}
    assert reap_owner(table(), "w1.", started=keys, overdue=keys) == 2
    row = fresh(late)
    assert (row.status, row.attempts, row.crashes) == (Status.DELAYED, 1, 0)
    assert row.errors[0]["exception"] == "TimeToRunExceeded"
    assert (fresh(waiting).status, fresh(waiting).attempts) == (Status.READY, 0)


def test_the_third_crash_buries():
    Note.objects.create()
    for crash in (1, 2, 3):
        [job] = claim(table(), "default", 1, f"w{crash}.1")
        assert (job.attempts, job.crashes) == (1, crash - 1)
        assert reap_owner(table(), f"w{crash}.", started={str(job.pk)}) == 1
    row = fresh(job)
    assert (row.status, row.crashes, row.attempts) == (Status.BURIED, 3, 0)
    assert [entry["exception"] for entry in row.errors] == ["WorkerLost"] * 3
    assert "buried" in row.last_error
    assert row.finished_at is not None


def test_the_jobs_of_a_lost_worker_come_back_in_chunks():
    owned(count=CHUNK + 20)
    given_back = [reap_owner(table(), "w1.", started=set()) for _ in range(3)]
    assert given_back == [CHUNK, 20, 0]


@pytest.mark.parametrize(
    "happening", [lambda job: job.complete(), steal], ids=["completed", "claimed by another"]
)
def test_a_job_that_moved_on_after_the_look_is_not_taken_back(monkeypatch, happening):
    [job] = owned()
    after = []

    def happen():
        if not after:
            happening(job)
            after.append(lifecycle_of(job))

    just_after(monkeypatch, happen)
    assert reap_owner(table(), "w1.") == 0
    assert lifecycle_of(job) == after[0]


def test_an_owner_is_not_mistaken_for_one_that_begins_alike():
    owned("w1.1")
    assert reap_owner(table(), "w.") == 0
    assert reap_owner(table(), "w11.") == 0


def test_a_reaped_job_can_be_claimed_again():
    [job] = owned()
    reap_owner(table(), "w1.")
    again = claim_one()
    assert (again.pk, again.attempts, again.losses) == (job.pk, 1, 1)
    with pytest.raises(ClaimLost):
        job.complete()
    again.complete()


def test_queues_with_ready_jobs_are_found_by_name():
    for queue in ["b", "a", "b", "é", "A", "c"]:
        Note.objects.create(queue=queue)
    claim_one(queue="c")
    Note.objects.enqueue(queue="later", delay=60)
    assert sorted(ready_queues(table())) == sorted(["b", "a", "é", "A"])
    assert len(ready_queues(table(), most=2)) == 2


@pytest.mark.parametrize(
    "happening", [lambda job: job.complete(), steal], ids=["completed", "claimed by another"]
)
def test_one_of_several_jobs_that_moves_on_keeps_no_other_from_coming_back(monkeypatch, happening):
    moving, *others = owned(count=4)
    after = []

    def happen():
        if not after:
            happening(moving)
            after.append(lifecycle_of(moving))

    just_after(monkeypatch, happen)
    assert reap_owner(table(), "w1.") == 3
    assert lifecycle_of(moving) == after[0]
    assert {(fresh(job).status, fresh(job).losses) for job in others} == {(Status.READY, 1)}


@pytest.mark.skipif(connection.vendor == "sqlite", reason="its locks are the whole database's")
def test_a_locked_row_of_a_claim_whose_answer_was_lost_is_an_error_and_not_forgotten():
    """Who believes that it was given back does not come by again."""
    [job] = owned()
    Session({"default"}).prepare()
    with row_locked(job), pytest.raises(OperationalError):
        reap.give_back(table(), job.claim_owner)
    [given_back] = reap.give_back(table(), job.claim_owner)
    assert given_back.held.key == job.pk
    assert fresh(job).status == Status.READY


def test_who_may_not_judge_ends_no_claim_however_dead_its_worker_looks():
    """Its own database was away: nobody could beat, nor write that a job is done."""
    job = claimed()
    Worker.objects.create(uuid=job.claim_owner.partition(".")[0], host="h", pid=1, beat_at=ago(60))
    done, _ = reaper().turn(judge=lambda: False)
    assert (done.reaped, fresh(job).status) == (0, Status.CLAIMED)
    done, _ = reaper().turn(judge=lambda: True)
    assert fresh(job).status == Status.READY


def test_all_jobs_of_a_dead_worker_come_back_in_one_turn_however_many():
    owned(count=CHUNK + 20)
    Worker.objects.create(uuid="w1", host="h", pid=1, beat_at=ago(60))
    reaper().turn(judge=lambda: True)
    assert Note.objects.claimed().count() == 0


def test_who_may_not_judge_ends_no_claim_whose_time_is_over():
    job = overdue()
    done, _ = reaper().turn(judge=lambda: False)
    assert (done.reaped, fresh(job).status) == (0, Status.CLAIMED)
    reaper().turn(judge=lambda: True)
    assert fresh(job).status != Status.CLAIMED
