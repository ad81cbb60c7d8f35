"""Jobs that were cancelled: the archive knows when, and that it was no other end."""

from datetime import timedelta

import pytest
from django.utils import timezone

from django_dbqueue.lifecycle import archive
from django_dbqueue.states import Status
from tests.kit.jobs import buried, claimed, done, fresh, overwrite, table
from tests.queueapp.models import ArchivedKept, Kept

pytestmark = pytest.mark.usefixtures("db_rows")

DAY = timedelta(days=1)


def adopted():
    """As rows are that were there before the table became a queue table."""
    job = done(Kept)
    overwrite(job, finished_at=None, retry_at=None, owner=None)
    return job


UNENDED = {
    "ready": Kept.objects.create,
    "claimed": lambda: claimed(Kept),
    "delayed": lambda: Kept.objects.enqueue(delay=900).job,
    "adopted": adopted,
}


def cancelled(job):
    assert Kept.objects.filter(pk=job.pk).cancel().changed == 1
    return ArchivedKept.objects.get(pk=job.pk)


@pytest.mark.parametrize("before", UNENDED)
def test_what_never_finished_ended_when_it_was_cancelled(before):
    row = cancelled(UNENDED[before]())
    assert row.created_at <= row.finished_at
    assert abs(timezone.now() - row.finished_at) < timedelta(minutes=1)


@pytest.mark.parametrize("end", [buried, done])
def test_what_had_an_end_keeps_its_time(end):
    job = end(Kept)
    overwrite(job, finished_at=timezone.now() - DAY)
    job = fresh(job)
    assert cancelled(job).finished_at == job.finished_at


@pytest.mark.parametrize("before", UNENDED)
def test_a_cancelled_job_is_pruned_as_any_other(before):
    row = cancelled(UNENDED[before]())
    assert archive.prune(table(Kept)) == 0
    ArchivedKept.objects.filter(pk=row.pk).update(finished_at=row.finished_at - DAY)
    assert archive.prune(table(Kept)) == 1


@pytest.mark.parametrize("before", ["ready", "claimed", "delayed"])
def test_a_job_that_was_cancelled_before_its_end_says_so(before):
    row = cancelled(UNENDED[before]())
    assert (row.state, row.get_status_display()) == ("cancelled", before)


def test_what_ended_before_it_was_cancelled_says_how():
    assert cancelled(buried(Kept)).state == "buried"
    assert cancelled(done(Kept)).state == "done"
    expired = claimed(Kept)
    overwrite(expired, status=Status.DONE, dequeued_time=None, expires_at=timezone.now())
    assert cancelled(expired).state == "expired"
