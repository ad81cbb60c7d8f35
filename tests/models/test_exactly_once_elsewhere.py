"""Exactly-once effects in another database than the job's: a receipt goes with them.

The jobs are in a SQLite file, their effects in the database under test.
"""

import pytest
from django.db import connection

from django_dbqueue.exceptions import ClaimLost, Undone
from django_dbqueue.models import Receipt
from django_dbqueue.models.receipt import KEPT, receipt_of
from django_dbqueue.states import Status
from tests.kit.effects_elsewhere import apart, claim, effects, jobs_aside, once, state
from tests.kit.jobs import in_thread
from tests.queueapp.models import Transfer

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def jobs(tmp_path):
    with jobs_aside(tmp_path) as manager:
        yield manager


def take_over(job):
    """Its worker looks dead: the job is ready again."""
    Transfer.objects.using("aside").filter(pk=job.pk).release()


def test_effect_and_receipt_are_written_together_and_the_job_is_done(jobs):
    jobs.create()
    job = claim(jobs)
    once(job).run_and_complete()
    assert (state(job), effects()) == (Status.DONE, [job.pk])
    [receipt] = Receipt.objects.all()
    assert (receipt.job_table, receipt.job_key) == ("queueapp_transfer@aside", str(job.pk))


def test_a_failed_run_leaves_no_receipt(jobs):
    jobs.create(action="fail")
    job = claim(jobs)
    with pytest.raises(RuntimeError):
        once(job).run_and_complete()
    assert (state(job), effects(), Receipt.objects.count()) == (Status.CLAIMED, [], 0)


def test_a_job_that_was_not_completed_after_its_effects_is_only_completed(jobs):
    """As where its worker was killed in between."""
    jobs.create()
    job = claim(jobs)
    once(job).run()
    assert (state(job), effects()) == (Status.CLAIMED, [job.pk])
    take_over(job)
    again = claim(jobs)
    once(again, work=lambda: pytest.fail("it ran again")).run_and_complete()
    assert (state(job), effects()) == (Status.DONE, [job.pk])


def test_of_two_that_run_at_once_one_writes(jobs):
    """The first one is slow, and is taken for dead: its heir is done before it commits."""
    if connection.vendor == "sqlite":
        pytest.skip("one transaction at a time")
    jobs.create()
    zombie = claim(jobs)

    def heir():
        job = claim(jobs)
        once(job).run_and_complete()

    def slow():
        zombie.run()
        take_over(zombie)
        in_thread(heir)

    with pytest.raises(ClaimLost):
        once(zombie, slow).run_and_complete()
    assert (state(zombie), effects()) == (Status.DONE, [zombie.pk])


def test_who_lost_the_claim_writes_nothing_even_with_no_heir_at_work(jobs):
    jobs.create()
    job = claim(jobs)

    def slow():
        job.run()
        take_over(job)

    with pytest.raises(ClaimLost):
        once(job, slow).run_and_complete()
    assert (state(job), effects(), Receipt.objects.count()) == (Status.READY, [], 0)


def test_a_key_that_is_used_again_is_another_job(jobs):
    """Else the jobs of a queue table that was emptied would be taken for done."""
    jobs.create(id=7)
    once(claim(jobs)).run_and_complete()
    jobs.all()._raw_delete("aside")
    jobs.create(id=7)
    once(claim(jobs)).run_and_complete()
    assert effects() == [7, 7]
    assert Receipt.objects.count() == 2


def test_receipts_are_pruned_a_day_later_of_jobs_that_cannot_run_again(jobs):
    for _ in range(4):
        jobs.create()
    done, buried, gone, _ = claimed = jobs.claim(4)
    for job in claimed:
        once(job).run()
    buried.bury()
    done.complete()
    gone.delete()
    old = fresh_receipts()
    assert Receipt.objects.prune(apart()) == 0
    with connection.cursor() as cursor:
        cursor.execute("UPDATE dbqueue_receipt SET written_at = '2020-01-01 00:00:00'")
    assert Receipt.objects.prune(apart()) == 2
    assert Receipt.objects.prune(apart()) == 0
    assert set(old) - set(fresh_receipts()) == {str(done.claim_key), str(gone.claim_key)}
    assert KEPT >= 3600


def fresh_receipts():
    return list(Receipt.objects.values_list("job_key", flat=True))


def test_the_receipt_of_a_job_is_the_same_whoever_makes_it(jobs):
    jobs.create()
    job = claim(jobs)
    first = receipt_of(apart(), job)
    job.data = {"changed": True}
    job.save()
    take_over(job)
    assert receipt_of(apart(), claim(jobs)).digest == first.digest
    assert len(first.digest) == 64


def test_its_run_cannot_end_the_claim(jobs):
    """On its own database that would be true at once, whatever becomes of the effects."""
    jobs.create(action="complete")
    job = claim(jobs)
    with pytest.raises(Undone, match="its transaction ends it"):
        once(job).run_and_complete()
    assert (state(job), effects(), Receipt.objects.count()) == (Status.CLAIMED, [], 0)
