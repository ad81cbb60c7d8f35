"""A worker with all its parts in one thread, so that each of its statements has its turn."""

import os
import time

from django.db import Error

from django_dbqueue.worker.board import Board
from django_dbqueue.worker.consumer import Consumer
from django_dbqueue.worker.options import Options, Served
from django_dbqueue.worker.patrol import Patrol
from django_dbqueue.worker.session import Session
from tests.queueapp.models import Chore, Errand

MODELS = (Chore, Errand)
MOST = 40  # turns; a fault is over after one
LATE = 15  # seconds after which a job is touched before it starts


class Clerk:
    """Beats and reaps as ``runreaper`` does, claims, runs and finishes as a worker's child does."""

    def __init__(self):
        served = tuple(Served(model, "default") for model in MODELS)
        self.patrol = Patrol(served, 1, beat_interval=2, worker_timeout=10)
        self.beats = self.patrol.beats
        self.board = Board(threads=1)
        options = Options(served=served, batch_grows=False)
        self.consumer = Consumer(options, None, f"{self.beats.uuid}.", self.board)
        self.claimer, self.buffer = self.consumer.claimer, self.consumer.buffer
        self.finisher = self.consumer.finisher

    def beat(self):
        """Until it is there; nothing is claimed before."""
        for _ in range(MOST):
            self.beats.next_at = 0.0
            self.patrol._beat()
            if self.beats.has_begun and not self.beats.patience.failures:
                break
        self.board.beat(time.monotonic(), self.beats.epoch)

    def reap(self):
        """A pass by one who has beaten for long, and another if that one met with an error."""
        for _ in range(MOST):
            self.beats.good_since = time.monotonic() - 100
            self.beats.last_good = time.monotonic()
            self.patrol.reaper._keep_at = 0.0
            self.patrol._pass()
            self.patrol.herald.turn()
            if not self.patrol.patience.failures:
                return

    def work(self):
        """Until nothing is ready, as far as can be seen."""
        self.claimer.lanes.look_now()
        for _ in range(MOST):
            self.consumer._claim_turn()
            had_work = self.buffer.under_way or self.finisher.pending
            self._run_all()
            self._flush()
            is_idle = self.claimer._is_idle and not self.claimer.patience.failures
            if is_idle and not (had_work or self.claimer.unsure or self.claimer.suspects):
                return

    def claim_and_give_back(self):
        """Paused after it has claimed."""
        self.claimer.lanes.look_now()
        self.consumer._claim_turn()
        self.board.paused = True
        for _ in range(MOST):
            self.consumer._claim_turn()
            if not (self.claimer.unsure or len(self.buffer) or self.claimer.suspects):
                break
        self.board.paused = False

    def sign_off(self):
        for _ in range(MOST):
            try:
                self.beats.sign_off("for the test")
                return
            except Error as error:
                self.beats.session.recover(error)

    def _run_all(self):
        while len(self.buffer):
            item = self.buffer.get()
            if item.jobs[0].name == "late":
                item.claimed_at -= LATE
            self.consumer.runners[0]._take(item)

    def _flush(self):
        for _ in range(MOST):
            if not self.finisher.pending:
                return
            self.finisher._aside_until = 0.0  # a locked table's rest is over
            self.consumer._finish_turn()

    def close(self):
        """A process would end here."""
        wakeups = self.patrol.wakeup, self.claimer.doorbell._wakeup
        ends = [end for one in wakeups for end in (one._reader, one._writer)]
        for descriptor in [*ends, self.consumer._ended, self.consumer._end]:
            os.close(descriptor)


def insist(verb):
    """As a caller does who tries again until there is an answer."""
    session = Session({"default"})
    for _ in range(MOST):
        try:
            return verb()
        except Error as error:
            session.recover(error)
            session.prepare()
    raise AssertionError(f"{verb} never works")
