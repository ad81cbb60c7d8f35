"""The verbs, the same on every database."""

import pytest

from django_dbqueue.states import Status
from tests.conftest import fresh
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


def claim_one():
    [job] = Note.objects.claim()
    return job


def test_a_created_row_is_ready_and_can_be_claimed_and_completed():
    Note.objects.create(text="first")
    job = claim_one()
    assert (job.text, job.status, job.attempts) == ("first", Status.CLAIMED, 1)
    job.complete()
    done = fresh(job)
    assert done.status == Status.DONE
    assert done.finished_at >= done.dequeued_time >= done.created_at
    assert done.retry_at is None
