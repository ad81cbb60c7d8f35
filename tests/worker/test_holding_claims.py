"""While outcomes cannot be written, nothing more is claimed: it would have to run twice."""

import time
from typing import Any

import pytest

from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.states import Status
from django_dbqueue.worker.consumer import Consumer
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import parse_served
from django_dbqueue.worker.shared_memory import Role, SharedMemory
from tests.kit.jobs import fresh, overwrite, table
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

SERVED = parse_served(["queueapp.Note"])


class ByHand:
    """A child's claiming thread, runner and finisher, each moved by the test."""

    def __init__(self, role=Role.ORDINARY, **options):
        self.shared = SharedMemory(threads=1)
        self.shared.beat(
            "default", time.monotonic() + 600, 1
        )  # nobody misses its beats, however slow it is
        given: dict[str, Any] = {"served": SERVED, "batch_size": 1, "batch_grows": False}
        told = Options(**given | options)
        self.consumer = Consumer(told, None, "by-hand.s1-", self.shared, role=role)
        self.finisher, self.buffer = self.consumer.finisher, self.consumer.buffer

    def claim(self):
        """How many are claimed by then."""
        self.consumer.claimer.scheduler.look_now()
        self.consumer.claim_turn()
        return Note.objects.claimed().count()

    def run(self):
        while len(self.buffer):
            self.consumer.runners[0].take(self.buffer.get())

    def finish(self):
        self.consumer.finish_turn()


@pytest.fixture
def child():
    return ByHand()


def test_nothing_is_claimed_until_outcomes_can_be_written_again(child):
    jobs = [Note.objects.create() for _ in range(3)]
    assert child.claim() == 1
    child.run()
    with refused(Note, "NEW.status = 2"):
        child.finish()
        assert child.shared.stuck == 1
        for _ in range(3):
            assert child.claim() == 1
    child.finish()
    assert (child.shared.stuck, fresh(jobs[0]).status) == (0, Status.DONE)
    assert child.claim() == 1
    assert fresh(jobs[1]).status == Status.CLAIMED


def test_what_was_claimed_before_runs_on(child):
    Note.objects.bulk_create([Note() for _ in range(2)])
    with refused(Note, "NEW.status = 2"):
        child.claim()
        child.run()
        assert child.claim() == 2
        child.finish()
        child.run()
        assert child.finisher.pending == 2
    child.finish()
    assert Note.objects.done().count() == 2


def test_a_job_that_has_to_run_alone_waits_until_all_outcomes_are_written():
    """Else they would be lost with it, and run again."""
    child = ByHand(role=Role.ALONE)
    for _ in range(2):
        overwrite(Note.objects.create(), crashes=2)
    assert len(claim(table(), "default", 2, "by-hand.7-1")) == 2
    child.claim()
    assert len(child.buffer) == 1
    child.run()
    child.claim()
    assert len(child.buffer) == 0
    with refused(Note, "NEW.status = 2"):
        child.finish()
        for _ in range(3):
            child.claim()
            assert len(child.buffer) == 0
    child.finish()
    wait_until(lambda: child.claim() and len(child.buffer))
    child.run()
    child.finish()
    assert Note.objects.done().count() == 2


def test_a_worker_that_stops_when_nothing_is_ready_stays_until_all_outcomes_are_written():
    child = ByHand(stop_when_empty=0.0)
    Note.objects.create()
    child.claim()
    child.run()
    with refused(Note, "NEW.status = 2"):
        child.finish()
        for _ in range(3):
            child.claim()
            assert not child.consumer._is_over()
    child.finish()
    assert not child.consumer._is_over()
    wait_until(lambda: child.claim() == 0 and child.consumer._is_over())


def has_looked(child, since):
    """Whether every table was looked at since then."""
    return child.consumer.claimer.scheduler.all_looked_at(since)


def test_nor_does_it_leave_before_a_look_that_began_when_the_last_outcome_was_written():
    """The outcome may have made its job ready again."""
    child = ByHand(stop_when_empty=0.0)
    Note.objects.create()
    child.claim()
    child.run()
    for _ in range(3):
        since = time.monotonic()
        wait_until(lambda: child.claim() and has_looked(child, since))  # noqa: B023
        assert not child.consumer._is_over()
    child.finish()
    assert not child.consumer._is_over()
    wait_until(lambda: child.claim() == 0 and child.consumer._is_over())
