"""A claim that is ended inside one's own transaction: what else was written there counts once."""

import pytest
from django.db import transaction

from django_dbqueue.exceptions import ClaimLost
from django_dbqueue.lifecycle import holder
from django_dbqueue.states import Status
from tests.kit.inline_worker import work_off
from tests.kit.jobs import claim_one, fresh, steal
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


def end_with_an_effect(job, verb="complete", *args):
    with transaction.atomic():
        Note.objects.create(text="effect")
        getattr(job, verb)(*args)


def effects():
    return Note.objects.filter(text="effect").count()


@pytest.fixture
def job():
    Note.objects.create()
    return claim_one()


def test_the_effect_is_there_with_the_completion(job):
    end_with_an_effect(job)
    assert (effects(), fresh(job).status) == (1, Status.DONE)
    assert job.claim_owner is None


def archive_it(job):
    """Another has done it, and it was moved away."""
    Note.objects.filter(pk=job.pk).delete()


def end_it(job):
    """The first try had arrived, but its answer was lost."""
    holder.complete(job._table(), job.claim_owner, [job.pk])


@pytest.mark.parametrize("happen", [archive_it, end_it, steal])
def test_there_is_no_effect_where_the_claim_has_ended(job, happen):
    happen(job)
    with pytest.raises(ClaimLost):
        end_with_an_effect(job)
    assert effects() == 0


def test_nor_in_a_transaction_without_autocommit(job):
    end_it(job)
    transaction.set_autocommit(False)
    try:
        with pytest.raises(ClaimLost):
            job.complete()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


ENDS = [("fail", "it broke"), ("release",), ("bury",), ("touch",)]


@pytest.mark.parametrize("end", ENDS)
def test_nothing_else_is_written_beside_a_job_that_is_gone(job, end):
    archive_it(job)
    with pytest.raises(ClaimLost):
        end_with_an_effect(job, *end)
    assert effects() == 0


@pytest.mark.parametrize("end", [("complete",), *ENDS])
def test_outside_a_transaction_a_job_that_is_gone_is_only_told_of(job, end, caplog):
    archive_it(job)
    caplog.set_level("INFO", "django_dbqueue")
    getattr(job, end[0])(*end[1:])
    assert "was deleted while it was claimed" in caplog.text


def end_and_roll_back(job, verb):
    with transaction.atomic():
        getattr(job, verb[0])(*verb[1:])
        transaction.set_rollback(True)


VERBS = [("complete",), *ENDS[:3]]
each_verb = pytest.mark.parametrize("verb", VERBS, ids=[verb[0] for verb in VERBS])


@each_verb
def test_after_a_rollback_the_claim_is_held_as_before(job, verb):
    end_and_roll_back(job, verb)
    assert fresh(job).owner == job.claim_owner
    job.touch()
    job.text = "written by its holder"
    job.save()
    getattr(job, verb[0])(*verb[1:])
    assert fresh(job).status != Status.CLAIMED
    assert job.claim_owner is None


@each_verb
def test_after_a_rollback_the_claim_can_be_lost(job, verb):
    end_and_roll_back(job, verb)
    steal(job)
    with pytest.raises(ClaimLost):
        job.save()


@each_verb
def test_a_rollback_to_a_savepoint_brings_the_claim_back_in_the_transaction(job, verb):
    with transaction.atomic():
        end_and_roll_back(job, verb)
        job.complete()
    assert (fresh(job).status, job.claim_owner) == (Status.DONE, None)


@each_verb
def test_within_the_transaction_the_claim_has_ended(job, verb):
    with transaction.atomic():
        with transaction.atomic():
            getattr(job, verb[0])(*verb[1:])
        job.text = "a last word"
        job.save()
        for again in VERBS:
            with pytest.raises(ClaimLost, match="holds no claim"):
                getattr(job, again[0])(*again[1:])
    assert fresh(job).text == "a last word"
    assert job.claim_owner is None


def test_a_rolled_back_end_leaves_the_job_to_its_worker(log):
    job = Note.objects.create(action="undone", log=log)
    work_off("queueapp.note")
    assert fresh(job).status == Status.DONE
