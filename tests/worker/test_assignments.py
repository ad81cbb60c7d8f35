"""A child that is told which queues are others', with a worker in this very process."""

import pytest

from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from django_dbqueue.worker.assignment import Assignment, QueueName
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

SLOW = QueueName("default", Note._meta.label_lower, "slow")


@pytest.fixture
def assignment():
    return Assignment()


@pytest.fixture
def worker(assignment):
    with InlineWorker("queueapp.Note") as worker:
        worker.consumer.claimers.assign(assignment)
        worker.beat()
        yield worker


def enqueue(queue, count=3):
    Note.objects.bulk_create([Note(queue=queue) for _ in range(count)])


def states(queue):
    return set(Note.objects.filter(queue=queue).values_list("status", "attempts"))


READY, CLAIMED, DONE = (Status.READY, 0), (Status.CLAIMED, 1), (Status.DONE, 1)


def test_it_takes_nothing_of_a_queue_that_is_others_until_that_is_its_own_again(worker, assignment):
    enqueue("slow")
    enqueue("quick")
    assignment.leave([SLOW])
    worker.work()
    assert (states("slow"), states("quick")) == ({READY}, {DONE})
    assignment.leave([])
    worker.work()
    assert states("slow") == {DONE}


def test_what_it_has_fetched_of_a_queue_that_becomes_others_is_given_back_and_charged_nothing(
    worker, assignment
):
    enqueue("slow")
    enqueue("quick")
    worker.claim()
    worker.consumer.claimer.buffer.refill_at = 100
    worker.claim()
    assert (states("slow"), states("quick")) == ({CLAIMED}, {CLAIMED})
    assignment.leave([SLOW])
    worker.claim()
    assert (states("slow"), states("quick")) == ({READY}, {CLAIMED})
    worker.work()
    assert (states("slow"), states("quick")) == ({READY}, {DONE})


def test_a_queue_that_nobody_was_told_of_is_everybodys(worker, assignment):
    assignment.leave([SLOW])
    enqueue("unknown")
    worker.work()
    assert states("unknown") == {DONE}
