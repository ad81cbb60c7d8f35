"""What becomes of jobs where the rows are those of a moment ago, and a worker remembers more.

As after a failover to a server that lacks the last commits; ``tests/cluster`` has real ones.
"""

import pytest
from django.db import connections
from django.db.models import QuerySet

from django_dbqueue.exceptions import ClaimLost
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from tests.kit.jobs import fresh, overwrite
from tests.queueapp.models import Effect, Note, Transfer

pytestmark = pytest.mark.usefixtures("db_rows")


def forget(job):
    """Its INSERT was not replicated."""
    QuerySet(type(job)).filter(pk=job.pk)._raw_delete("default")


def claim(model=Note):
    [job] = model.objects.claim(limit=1)
    return job


@pytest.mark.parametrize("verb", ["complete", "release", "touch"])
def test_a_job_with_the_id_of_a_lost_one_is_not_touched_by_who_holds_that(verb):
    Note.objects.create(text="lost")
    held = claim()
    forget(held)
    new = Note.objects.create(pk=held.pk, text="new")
    with pytest.raises(ClaimLost):
        getattr(held, verb)()
    assert fresh(new).status == Status.READY
    assert fresh(new).attempts == 0
    again = claim()
    with pytest.raises(ClaimLost):
        getattr(held, verb)()
    again.complete()
    assert fresh(new).status == Status.DONE


def test_a_lost_job_that_is_in_hand_ends_without_an_error():
    Note.objects.create()
    held = claim()
    forget(held)
    held.complete()
    assert not Note.objects.exists()


def test_a_job_whose_claim_is_forgotten_is_anothers_and_the_first_outcome_is_refused():
    job = Note.objects.create()
    first = claim()
    overwrite(job, status=0, owner=None, retry_at=None, attempts=0, dequeued_time=None)
    second = claim()
    with pytest.raises(ClaimLost):
        first.complete()
    second.complete()
    assert fresh(job).attempts == 1


def test_an_effect_and_its_job_are_forgotten_together_and_come_back_together():
    job = Transfer.objects.create()
    with InlineWorker("queueapp.transfer") as worker:
        worker.run()
        assert Effect.objects.filter(job=job.pk).count() == 1
        Effect.objects.all().delete()
        overwrite(job, status=0, owner=None, retry_at=None, finished_at=None, attempts=0)
        connections["default"].close()
        worker.run()
    assert Effect.objects.filter(job=job.pk).count() == 1
    assert fresh(job).status == Status.DONE
