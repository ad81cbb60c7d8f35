"""What a person does to jobs: compare-and-set on what was seen."""

import pytest

from django_dbqueue.exceptions import ClaimLost
from django_dbqueue.lifecycle import operator
from django_dbqueue.states import Status
from tests.kit.jobs import buried, claim_one, claimed, done, fresh, lifecycle_of, overwrite, table
from tests.queueapp.models import ArchivedKept, Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")

TAKES = {
    "bury": {Status.READY, Status.CLAIMED, Status.DELAYED},
    "kick": {Status.DELAYED, Status.BURIED},
    "release": {Status.CLAIMED},
    "cancel": set(Status),
}


def one_of_each(model=Note):
    done(model)
    buried(model)
    claimed(model)
    model.objects.enqueue(delay=60)
    model.objects.create()
    assert set(model.objects.values_list("status", flat=True)) == set(Status)


def counts(changed):
    return changed.changed, changed.skipped


@pytest.mark.parametrize("verb", TAKES)
def test_a_verb_takes_jobs_from_its_own_states_and_skips_the_others(verb):
    one_of_each()
    others = [job for job in Note.objects.all() if job.status not in TAKES[verb]]
    before = [lifecycle_of(job) for job in others]
    answer = getattr(Note.objects.all(), verb)()
    assert counts(answer) == (len(TAKES[verb]), len(others))
    assert [lifecycle_of(job) for job in others] == before


def test_only_delayed_jobs_are_made_ready_before_their_time():
    one_of_each()
    others = list(Note.objects.exclude(status=Status.DELAYED))
    before = [lifecycle_of(job) for job in others]
    seen = [(job.pk, job.status, job.owner) for job in Note.objects.all()]
    assert counts(operator.hasten(table(), seen, {"text": "now"})) == (1, 4)
    assert [lifecycle_of(job) for job in others] == before
    [hastened] = Note.objects.filter(text="now")
    assert (hastened.status, hastened.retry_at) == (Status.READY, None)


@pytest.mark.parametrize("verb", TAKES)
def test_jobs_that_moved_on_in_between_are_skipped(verb):
    """The row changes between the look and the write of the verb."""
    one_of_each()
    status = min(TAKES[verb])
    jobs = list(Note.objects.filter(status=status))
    seen = [(job.pk, job.status, job.owner) for job in jobs]
    moves = {Status.CLAIMED: Status.DONE, Status.READY: Status.CLAIMED}
    overwrite(jobs[0], status=moves.get(status, Status.READY), owner="another.1")
    before = lifecycle_of(jobs[0])
    assert counts(getattr(operator, verb)(table(), seen)) == (0, 1)
    assert lifecycle_of(jobs[0]) == before


@pytest.mark.parametrize("verb", ["bury", "release", "cancel"])
def test_a_job_that_was_claimed_anew_in_between_is_skipped(verb):
    job = claimed()
    seen = [(job.pk, Status.CLAIMED, job.owner)]
    job.release()
    again = claim_one()
    assert counts(getattr(operator, verb)(table(), seen)) == (0, 1)
    again.complete()


def test_a_deleted_job_is_skipped():
    job = Note.objects.create()
    seen = [(job.pk, Status.READY, None)]
    job.delete()
    assert counts(operator.bury(table(), seen)) == (0, 1)


def test_bury_takes_a_running_job_from_its_worker():
    job = claimed()
    assert counts(Note.objects.claimed().bury()) == (1, 0)
    row = fresh(job)
    assert (row.status, row.owner, row.retry_at) == (Status.BURIED, None, None)
    with pytest.raises(ClaimLost):
        job.complete()
    assert fresh(job).status == Status.BURIED


def test_kick_puts_a_buried_job_back_with_all_its_attempts():
    job = buried()
    overwrite(job, crashes=3, attempts=3)
    assert counts(Note.objects.buried().kick()) == (1, 0)
    row = fresh(job)
    assert (row.status, row.attempts, row.crashes) == (Status.READY, 0, 0)
    assert (row.finished_at, len(row.errors)) == (None, 1)
    assert claim_one().attempts == 1


def test_kick_makes_a_delayed_job_ready():
    job, _ = Note.objects.enqueue(delay=3600)
    assert counts(Note.objects.delayed().kick()) == (1, 0)
    assert (fresh(job).status, fresh(job).retry_at) == (Status.READY, None)


def test_release_takes_the_attempt_back():
    job = claimed()
    assert counts(Note.objects.all().release()) == (1, 0)
    row = fresh(job)
    assert (row.status, row.attempts, row.owner, row.retry_at) == (Status.READY, 0, None, None)
    with pytest.raises(ClaimLost):
        job.complete()


def test_cancel_deletes_where_there_is_no_archive():
    one_of_each()
    running = Note.objects.claimed().get()
    assert counts(Note.objects.all().cancel()) == (5, 0)
    assert not Note.objects.exists()
    running.claim_owner = running.owner
    running.complete()  # logged, no error


def test_cancel_moves_jobs_to_the_archive_as_they_are():
    one_of_each(Kept)
    before = {job.pk: (job.status, job.queue, job.errors) for job in Kept.objects.all()}
    assert counts(Kept.objects.all().cancel()) == (5, 0)
    assert not Kept.objects.exists()
    archived = ArchivedKept.objects.all()
    assert {job.pk: (job.status, job.queue, job.errors) for job in archived} == before


def test_a_verb_concerns_the_jobs_of_its_queryset():
    Note.objects.bulk_create(Note(queue=queue) for queue in "aab")
    assert counts(Note.objects.filter(queue="a").bury()) == (2, 0)
    assert counts(Note.objects.in_queue("b").order_by("-pk")[:1].bury()) == (1, 0)
    assert counts(Note.objects.none().bury()) == (0, 0)


def test_many_jobs_are_written_in_chunks():
    Note.objects.bulk_create(Note() for _ in range(operator.CHUNK + 3))
    assert counts(Note.objects.all().bury()) == (operator.CHUNK + 3, 0)
    assert counts(Note.objects.all().kick()) == (operator.CHUNK + 3, 0)


def test_the_answer_says_what_was_done():
    claimed()
    Note.objects.create()
    assert str(Note.objects.ready().bury()) == "1 changed"
    assert str(Note.objects.all().release()) == ("1 changed, 1 skipped: their state had moved on")
