"""A worker whose parts the scenario calls one by one: each of its statements has its turn."""

import time

from django.db import Error

from django_dbqueue.testing import InlineWorker
from django_dbqueue.testing.inline import TRIES
from django_dbqueue.worker.session import Session
from tests.queueapp.models import Chore, Errand

MODELS = (Chore, Errand)
LATE = 15  # seconds after which a job is touched before it starts


class StepwiseWorker(InlineWorker):
    """Jobs named "late" waited for long after they were claimed."""

    def __init__(self):
        labels = [model._meta.label_lower for model in MODELS]
        super().__init__(*labels, "--batch-size", "10")

    def take(self, item):
        if item.jobs[0].name == "late":
            item.claimed_at -= LATE
        # No beat is missed, however slow the machine is, and none comes between the statements.
        self.shared.beat("default", time.monotonic(), self.beats[0].last.epoch)
        self.consumer.runners[0].take(item)

    def claim_and_give_back(self):
        """Paused after it has claimed."""
        claimer = self.consumer.claimer
        claimer.scheduler.look_now()
        self.claim()
        self.shared.paused = True
        for _ in range(TRIES):
            self.claim()
            if not (claimer.reconciler.unsure or len(self.consumer.buffer)):
                break
        self.shared.paused = False

    def close(self):
        """A process would end here; it has signed off, or was killed."""
        self.consumer.close()


def insist(verb):
    """As a caller does who tries again until there is an answer."""
    session = Session({"default"})
    for _ in range(TRIES):
        try:
            return verb()
        except Error as error:
            session.recover(error)
            session.prepare()
    raise AssertionError(f"{verb} never works")
