"""Bounded queues of jobs with concurrency keys."""

import pytest

from django_dbqueue.exceptions import QueueFull
from django_dbqueue.states import Status
from tests.kit.bounds import limits
from tests.queueapp.models import ArchivedShared, Shared

pytestmark = pytest.mark.usefixtures("db_rows")


def make(count, tenant="a"):
    return [Shared.objects.create(tenant=tenant) for _ in range(count)]


def claim():
    return Shared.objects.claim(limit=10)


def keys(jobs):
    return [job.pk for job in jobs]


def parked():
    return [job.pk for job in Shared.objects.order_by("pk") if job.waits_for_key]


def test_what_waits_for_its_key_counts_in_a_bounded_queue():
    with limits("queueapp.shared", max_length=5):
        make(4)
        claim()
        assert claim() == []
        assert len(parked()) == 2
        make(1)
        with pytest.raises(QueueFull):
            make(1)


def test_what_waits_for_its_key_makes_room_where_nothing_else_is_older():
    with limits("queueapp.shared", max_length=3, when_full="drop_oldest"):
        jobs = make(3)
        claim()
        assert claim() == []
        make(1, "b")
    assert [job.pk for job in ArchivedShared.objects.all()] == keys(jobs[2:])


def test_when_one_is_dropped_whose_turn_it_was_the_next_of_its_key_is_woken():
    with limits("queueapp.shared", max_length=4, when_full="drop_oldest"):
        jobs = make(4)
        first, _ = claim()
        assert claim() == []
        first.complete()
        assert parked() == keys(jobs[3:])
        make(2, "b")
    assert [job.pk for job in ArchivedShared.objects.filter(status=Status.BURIED)] == [jobs[2].pk]
    assert parked() == []
