"""dedup_key: one job for many requests, without breaking anybody's transaction."""

import uuid

import pytest
from django.db import IntegrityError, connection, transaction

from django_dbqueue.lifecycle import holder
from django_dbqueue.models import JobManager
from django_dbqueue.states import Status
from tests.kit.jobs import (
    claim_one,
    done,
    fresh,
    in_thread,
    overwrite,
    reap_overdue,
    start_all,
    table,
)
from tests.lifecycle.test_keys import read_repeatably
from tests.queueapp.models import Fetched, Fleeting, Kept, Note, Person, Unique, Uuid

pytestmark = pytest.mark.usefixtures("db_rows")


def ask(model=Note, **columns):
    return model.objects.enqueue(dedup_key="photo:7", **columns)


def test_a_twin_is_not_made():
    job, created = ask(text="first")
    twin, twin_created = ask(text="second")
    assert (created, twin_created) == (True, False)
    assert (twin.pk, twin.text) == (job.pk, "first")
    assert Note.objects.count() == 1


def test_the_new_job_is_whole():
    job, _ = ask(text="first", priority=3, delay=60)
    row = fresh(job)
    assert (row.text, row.priority, row.status) == ("first", 3, Status.DELAYED)
    assert (row.dedup_key, job.created_at) == ("photo:7", row.created_at)
    assert (row.retry_at - row.created_at).total_seconds() == pytest.approx(60, abs=1)


def test_every_queue_has_its_own_keys():
    assert ask().created
    assert ask(queue="other").created


def test_the_twin_that_comes_back_is_of_the_same_queue():
    ask()
    job, _ = ask(queue="other")
    twin, created = ask(queue="other")
    assert (twin.pk, created) == (job.pk, False)


def test_keys_are_compared_byte_by_byte():
    for key in ["a", "A", "á"]:
        assert Note.objects.enqueue(dedup_key=key).created


def test_a_twin_does_not_break_the_callers_transaction():
    with transaction.atomic():
        assert ask().created
        assert not ask().created
        Note.objects.create(text="beside")
        assert not ask().created
    assert Note.objects.count() == 2


def test_a_plain_insert_of_a_twin_is_an_error():
    ask()
    with pytest.raises(IntegrityError), transaction.atomic():
        Note.objects.create(dedup_key="photo:7")


def test_many_twins_at_once_make_one_job():
    answers = start_all(*[ask] * 8)
    assert sum(created for _, created in answers) == 1
    assert len({job.pk for job, _ in answers}) == 1
    assert Note.objects.count() == 1


def test_a_twin_in_an_open_transaction_is_waited_for():
    def hold():
        with transaction.atomic():
            return ask()

    answers = start_all(*[hold] * 4)
    assert sum(created for _, created in answers) == 1
    assert Note.objects.count() == 1


@pytest.mark.skipif(connection.vendor != "mysql", reason="an error of the others, or never so")
def test_a_twin_that_is_younger_than_the_snapshot_is_answered():
    def ask_late():
        read_repeatably()
        with transaction.atomic():
            assert not Note.objects.exists()
            return in_thread(ask), ask()

    [(first, second)] = start_all(ask_late)
    assert (second.job, second.created) == (first.job, False)


def test_the_claim_frees_the_key():
    ask()
    job = claim_one()
    assert fresh(job).dedup_key is None
    assert ask().created


def test_a_policy_may_keep_the_key_until_the_job_is_done():
    ask(Kept)
    job = claim_one(Kept)
    assert ask(Kept) == (job, False)
    job.release()
    assert not ask(Kept).created
    job = claim_one(Kept)
    job.fail("no")
    assert not ask(Kept).created
    overwrite(job, status=Status.READY, retry_at=None)
    claim_one(Kept).complete()
    assert ask(Kept).created


def test_a_job_that_is_deleted_when_done_frees_its_key():
    ask(Fleeting)
    claim_one(Fleeting).complete()
    assert ask(Fleeting).created


@pytest.mark.parametrize("model", [Note, Kept])
def test_bury_frees_the_key(model):
    ask(model)
    assert model.objects.all().bury().changed == 1
    assert ask(model).created
    claim_one(model).bury()
    assert ask(model).created


def test_the_end_of_the_attempts_frees_the_key():
    ask(Kept)
    job = claim_one(Kept)
    job.attempts = 99
    job.fail("no")
    assert fresh(job).status == Status.BURIED
    assert ask(Kept).created


def test_a_job_buried_by_the_reaper_frees_its_key():
    ask(Kept)
    job = claim_one(Kept)
    overwrite(job, attempts=99, retry_at=job.created_at)
    assert reap_overdue(table(Kept)) == 1
    assert ask(Kept).created


def test_an_expired_job_frees_its_key():
    ask(Kept)
    job = claim_one(Kept)
    holder.expire(table(Kept), job)
    assert ask(Kept).created


def test_a_cancelled_job_frees_its_key():
    ask()
    Note.objects.all().cancel()
    assert ask().created


def test_an_insert_that_another_constraint_refuses_is_never_silent():
    ask(Unique, code=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        Unique.objects.enqueue(dedup_key="another", code=1)
    assert Unique.objects.count() == 1


def test_a_taken_primary_key_is_an_error_and_no_new_job():
    job = done(Uuid)
    with pytest.raises(IntegrityError), transaction.atomic():
        Uuid.objects.enqueue(dedup_key="another", id=job.pk)
    with pytest.raises(IntegrityError):
        Uuid.objects.enqueue(dedup_key="another", id=job.pk)
    assert Uuid.objects.count() == 1
    assert fresh(job).dedup_key is None


@pytest.mark.parametrize(("model", "key"), [(Uuid, uuid.UUID(int=7)), (Note, 7)])
def test_the_same_primary_key_and_dedup_key_are_a_twin(model, key):
    job, created = ask(model, id=key)
    assert (job.pk, created) == (key, True)
    assert ask(model, id=key) == (job, False)
    assert model.objects.count() == 1


def test_a_primary_key_that_is_given_is_kept():
    job, created = ask(id=4321)
    assert (job.pk, created, fresh(job).dedup_key) == (4321, True, "photo:7")
    following, created = Note.objects.enqueue(dedup_key="following", id=4322)
    assert (following.pk, created, Note.objects.count()) == (4322, True, 2)


@pytest.mark.parametrize("on_duplicate", ["keep", "replace"])
def test_a_row_that_was_not_saved_is_refused_as_without_a_key(on_duplicate):
    with pytest.raises(ValueError, match="unsaved related object 'sitter'"):
        Fetched.objects.enqueue(sitter=Person())
    with pytest.raises(ValueError, match="unsaved related object 'sitter'"):
        Fetched.objects.enqueue(sitter=Person(), dedup_key="k", on_duplicate=on_duplicate)
    assert not Fetched.objects.exists()


def test_a_row_that_was_not_saved_replaces_none():
    sitter = Person.objects.create(code="a")
    job, _ = Fetched.objects.enqueue(sitter=sitter, dedup_key="k")
    with pytest.raises(ValueError, match="unsaved related object 'sitter'"):
        Fetched.objects.enqueue(sitter=Person(), dedup_key="k", on_duplicate="replace")
    assert fresh(job).sitter_id == sitter.pk


class Hiding(JobManager):
    def get_queryset(self):
        return super().get_queryset().exclude(text="hidden")


def test_a_twin_that_the_projects_manager_hides_is_found_all_the_same():
    jobs = Hiding()
    jobs.model = Note
    hidden = ask(text="hidden").job
    again = jobs.enqueue(dedup_key="photo:7")
    assert (again.job, again.created) == (hidden, False)
    again = jobs.enqueue(dedup_key="photo:7", text="seen", on_duplicate="replace")
    assert (again.job, again.job.text, again.outcome) == (hidden, "seen", "replaced")
