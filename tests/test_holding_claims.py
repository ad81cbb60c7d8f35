"""While outcomes cannot be written, nothing more is claimed: it would have to run twice."""

import time

import pytest

from django_dbqueue.states import Status
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.consumer import Consumer
from django_dbqueue.worker.options import Options, parse_served
from tests.kit.jobs import fresh
from tests.kit.refusals import refused
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

OPTIONS = Options(served=parse_served(["queueapp.Note"]), batch_size=1, batch_grows=False)


class ByHand:
    """A child's claiming thread, runner and finisher, each moved by the test."""

    def __init__(self):
        self.board = Board(threads=1)
        self.board.beat(time.monotonic(), 1)
        self.consumer = Consumer(OPTIONS, None, "by-hand.1-", self.board)
        self.finisher = self.consumer.finisher

    def claim(self):
        """How many are claimed by then."""
        self.consumer.claimer.lanes.look_now()
        self.consumer._claim_turn()
        return Note.objects.claimed().count()

    def run(self):
        while len(self.consumer.buffer):
            self.consumer.runners[0]._take(self.consumer.buffer.get())

    def finish(self):
        self.consumer._finish_turn()


@pytest.fixture
def child():
    return ByHand()


def test_nothing_is_claimed_until_outcomes_can_be_written_again(child):
    jobs = [Note.objects.create() for _ in range(3)]
    assert child.claim() == 1
    child.run()
    with refused(Note, "NEW.status = 2"):
        child.finish()
        assert child.board.stuck == 1
        for _ in range(3):
            assert child.claim() == 1
    child.finish()
    assert (child.board.stuck, fresh(jobs[0]).status) == (0, Status.DONE)
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
