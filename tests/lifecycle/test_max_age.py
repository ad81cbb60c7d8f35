"""max_age: how long a job may wait that says nothing of it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.kit.bounds import limits
from tests.kit.jobs import fresh
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
HOUR = 3600
WAYS = {
    "create": Note.objects.create,
    "enqueue": lambda **columns: Note.objects.enqueue(dedup_key="a", **columns),
    "bulk_create": lambda **columns: Note.objects.bulk_create([Note(**columns)]),
    "enqueue_many": lambda **columns: Note.objects.enqueue_many([columns]),
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def age(job=None):
    """Seconds from when it was made until it expires."""
    job = job or Note.objects.get()
    return None if job.expires_at is None else (job.expires_at - job.created_at).total_seconds()


@ways
def test_a_job_that_says_nothing_expires(way):
    with limits(max_age=HOUR):
        way(text="a")
    assert age() == pytest.approx(HOUR, abs=2)


@ways
def test_what_a_job_says_itself_counts(way):
    with limits(max_age=HOUR):
        way(expires_at=timezone.now() + timedelta(seconds=60))
    assert age() == pytest.approx(60, abs=2)


@ways
def test_a_delayed_job_waits_from_when_it_is_due(way):
    with limits(max_age=HOUR):
        way(retry_at=timezone.now() + timedelta(seconds=HOUR))
    assert age() == pytest.approx(2 * HOUR, abs=2)


def test_so_does_one_with_a_delay():
    with limits(max_age=HOUR):
        Note.objects.enqueue(delay=HOUR)
        Note.objects.enqueue_many([{"text": "many"}], delay=HOUR)
    assert [age(job) for job in Note.objects.all()] == pytest.approx([2 * HOUR] * 2, abs=2)


@ways
def test_another_queue_has_its_own(way):
    with limits("queueapp.note:mayflies", max_age=1):
        way(queue="default")
    assert age() is None


def test_the_new_job_knows_when_it_expires():
    with limits(max_age=HOUR):
        job = Note.objects.create()
    assert job.expires_at == fresh(job).expires_at
