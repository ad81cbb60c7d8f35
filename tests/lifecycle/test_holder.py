"""What the holder of a claim does with it: complete, touch, fail, release, bury, expire."""

import logging
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from django_dbqueue.exceptions import Bury, ClaimLost, Retry
from django_dbqueue.lifecycle import holder
from django_dbqueue.states import Status
from tests.kit.jobs import claim_one, claimed, fresh, lifecycle_of, overwrite, steal, table
from tests.kit.waiting import wait_until
from tests.queueapp.models import Fleeting, Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")

VERBS = {
    "complete": lambda job: job.complete(),
    "touch": lambda job: job.touch(),
    "release": lambda job: job.release(),
    "release later": lambda job: job.release(60),
    "fail": lambda job: job.fail("no"),
    "bury": lambda job: job.bury("no"),
    "expire": lambda job: holder.expire(table(type(job)), job),
}
each_verb = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())


@each_verb
def test_a_stale_owner_cannot_write(verb):
    job = claimed()
    steal(job)
    before = lifecycle_of(job)
    with pytest.raises(ClaimLost):
        verb(job)
    assert lifecycle_of(job) == before


@each_verb
@pytest.mark.parametrize("status", [Status.READY, Status.DONE, Status.DELAYED, Status.BURIED])
def test_a_job_that_is_claimed_no_more_is_left_alone(verb, status):
    job = claimed()
    overwrite(job, status=status, owner=None)
    before = lifecycle_of(job)
    with pytest.raises(ClaimLost):
        verb(job)
    assert lifecycle_of(job) == before


@each_verb
def test_a_finished_job_is_left_alone_by_its_last_owner(verb):
    """Its row keeps the owner, so that a completion can be repeated."""
    job = claimed()
    holder.complete(table(), job.owner, [job.pk])
    before = lifecycle_of(job)
    if verb is VERBS["complete"]:
        verb(job)
    else:
        with pytest.raises(ClaimLost):
            verb(job)
    assert lifecycle_of(job) == before


@each_verb
def test_the_same_worker_cannot_write_with_an_older_claim(verb):
    job = claimed()
    overwrite(job, owner=f"{job.owner}0")
    before = lifecycle_of(job)
    with pytest.raises(ClaimLost):
        verb(job)
    assert lifecycle_of(job) == before


@each_verb
def test_a_deleted_job_is_no_error(verb, caplog):
    job = claimed()
    Note.objects.all().delete()
    with caplog.at_level(logging.INFO, "django_dbqueue"):
        was_there = verb(job)
    assert "deleted" in caplog.text or was_there is False
    assert not Note.objects.exists()


@pytest.mark.parametrize("verb", [v for name, v in VERBS.items() if name != "expire"])
def test_a_job_that_was_merely_read_has_no_claim(verb):
    claimed()
    with pytest.raises(ClaimLost, match="holds no claim"):
        verb(Note.objects.get())
    assert Note.objects.get().status == Status.CLAIMED


def test_complete_is_the_end():
    job = claimed()
    job.complete()
    row = fresh(job)
    assert row.status == Status.DONE
    assert row.finished_at >= row.dequeued_time >= row.created_at
    assert (row.retry_at, row.attempts) == (None, 1)
    with pytest.raises(ClaimLost):
        job.complete()


def test_complete_deletes_where_the_policy_keeps_nothing():
    Fleeting.objects.bulk_create([Fleeting(), Fleeting()])
    mine, stolen = Fleeting.objects.claim(limit=2)
    steal(stolen)
    mine.complete()
    with pytest.raises(ClaimLost):
        stolen.complete()
    assert Fleeting.objects.get().pk == stolen.pk


def test_complete_may_be_said_twice_after_a_lost_answer():
    job = claimed()
    assert holder.complete(table(), job.owner, [job.pk]).written == [job.pk]
    assert holder.complete(table(), job.owner, [job.pk]).written == [job.pk]


@pytest.mark.parametrize("verb", [holder.complete, holder.touch])
def test_a_batch_tells_apart_what_was_written_lost_and_deleted(verb):
    Note.objects.bulk_create(Note() for _ in range(5))
    jobs = Note.objects.claim(limit=5)
    steal(jobs[1])
    Note.objects.filter(pk=jobs[3].pk).delete()
    before = lifecycle_of(jobs[1])
    result = verb(table(), jobs[0].owner, [job.pk for job in jobs])
    assert sorted(result.written) == [jobs[n].pk for n in (0, 2, 4)]
    assert (result.lost, result.gone) == ([jobs[1].pk], [jobs[3].pk])
    assert lifecycle_of(jobs[1]) == before


def test_a_batch_is_released_but_for_what_is_lost():
    Note.objects.bulk_create(Note() for _ in range(3))
    jobs = Note.objects.claim(limit=3)
    steal(jobs[1])
    result = holder.release(table(), jobs[0].owner, [job.pk for job in jobs])
    assert jobs[1].pk in result.lost
    assert [job.status for job in map(fresh, jobs)] == [Status.READY, Status.CLAIMED, Status.READY]


@pytest.mark.parametrize("verb", [holder.complete, holder.touch, holder.release])
def test_an_empty_batch_writes_nothing(verb):
    assert verb(table(), "nobody", []) == holder.Written()


def test_touch_restarts_the_time_to_run():
    job = claimed(time_to_run=100)
    overwrite(job, retry_at=timezone.now())
    job.touch()
    left = (fresh(job).retry_at - timezone.now()).total_seconds()
    assert left == pytest.approx(100, abs=5)
    job.complete()


def test_release_takes_the_attempt_back():
    job = claimed()
    job.release()
    row = fresh(job)
    assert (row.status, row.attempts, row.owner) == (Status.READY, 0, None)
    assert (row.dequeued_time, row.retry_at) == (None, None)
    assert claim_one().attempts == 1


def test_release_with_a_delay():
    job = claimed()
    job.release(delay=60)
    row = fresh(job)
    assert (row.status, row.attempts, row.owner) == (Status.DELAYED, 0, None)
    assert (row.retry_at - timezone.now()).total_seconds() == pytest.approx(60, abs=5)


@pytest.mark.parametrize("delay", [-1, float("nan"), 1e12])
def test_a_delay_that_means_nothing_is_refused(delay):
    job = claimed()
    with pytest.raises(ValueError, match="delay"):
        job.release(delay)
    assert fresh(job).status == Status.CLAIMED


@pytest.mark.parametrize("delay", [1e-7, 1e-5, 0.001])
def test_the_shortest_delay_ends_too(delay):
    from django_dbqueue.lifecycle.promotion import promote

    job = claimed()
    job.release(delay)
    wait_until(lambda: promote(table()))
    assert fresh(job).status == Status.READY


def test_fail_retries_by_the_policy():
    job = claimed()
    job.fail(RuntimeError("no luck"))
    row = fresh(job)
    assert (row.status, row.attempts, row.owner) == (Status.DELAYED, 1, None)
    assert (row.retry_at - timezone.now()).total_seconds() <= 0.2
    assert row.last_error == "RuntimeError: no luck"


def test_the_last_attempt_buries():
    job = claimed()
    overwrite(job, attempts=3)
    job.attempts = 3
    job.fail(RuntimeError("no luck"))
    row = fresh(job)
    assert (row.status, row.owner, row.retry_at) == (Status.BURIED, None, None)
    assert row.finished_at is not None


@pytest.mark.parametrize(
    ("error", "seconds"), [(Retry(3600), 3600), (Retry(), 0.2), (Retry(1e12), 10 * 365 * 86400)]
)
def test_retry_says_when(error, seconds):
    job = claimed()
    job.fail(error)
    row = fresh(job)
    assert row.status == Status.DELAYED
    assert (row.retry_at - timezone.now()).total_seconds() == pytest.approx(seconds, abs=5)


def test_a_finished_job_knows_when_it_leaves_its_table():
    job = claimed(Kept)
    job.complete()
    row = fresh(job)
    assert (row.retry_at - row.finished_at).total_seconds() == pytest.approx(3600, abs=1)


def test_retry_at_once_is_ready_at_once():
    job = claimed()
    job.fail(Retry(0))
    assert fresh(job).status == Status.READY


def test_retry_takes_a_decimal():
    delay = Retry(Decimal("1.5")).delay
    assert (type(delay), delay) == (float, 1.5)
    assert Retry(10**400).delay > 10**100


def test_a_job_fails_though_the_callers_clock_was_set_back():
    job = claimed()
    job.fail("no", seconds=-0.1)
    row = fresh(job)
    assert (row.status, row.errors[-1]["seconds"]) == (Status.DELAYED, 0)


@pytest.mark.parametrize("delay", [-1, float("nan"), Decimal("NaN"), Decimal("sNaN"), Decimal(-1)])
def test_retry_refuses_a_delay_that_means_nothing(delay):
    with pytest.raises(ValueError, match="delay"):
        Retry(delay)


def test_retry_counts_the_attempt():
    job = claimed()
    overwrite(job, attempts=3)
    job.attempts = 3
    job.fail(Retry(60))
    assert fresh(job).status == Status.BURIED


def test_bury_parks_whatever_attempts_are_left():
    job = claimed()
    job.fail(Bury("nobody can do this"))
    row = fresh(job)
    assert (row.status, row.attempts) == (Status.BURIED, 1)
    assert row.last_error == "nobody can do this"


def test_an_expired_job_is_done_without_a_run():
    Note.objects.create(expires_at=timezone.now() - timedelta(seconds=1))
    job = claim_one()
    holder.expire(table(), job)
    row = fresh(job)
    assert (row.status, row.state, row.attempts) == (Status.DONE, "expired", 0)
    assert list(Note.objects.expired()) == [row]
