"""The nodes of a cluster have clocks of their own: life is judged by the judge's clock alone."""

import threading
import time

import pytest
from django.db.models import QuerySet

from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from tests.kit.agents import AgentHere
from tests.kit.jobs import fresh, start, table
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

SKEW = 100.0  # seconds


class Beating:
    """A worker that beats by a node whose clock is wrong, and that has a job in hand."""

    def __init__(self, letter, skew):
        self.uuid, self.skew = letter * 32, skew
        self.lives = threading.Event()
        Worker.objects.create(uuid=self.uuid, host=letter, pid=1, serves=["queueapp.note"])
        self.beat()
        Note.objects.create()
        [self.job] = claim(table(), "default", 1, f"{self.uuid}.1")

    def beat(self):
        QuerySet(Worker).filter(pk=self.uuid).update(beat_at=DbNow(plus=self.skew))

    @property
    def was_reaped(self):
        return fresh(self.job).status == Status.READY


def test_nobody_alive_is_called_dead_and_the_dead_are_reaped_in_time():
    workers = [Beating("f", SKEW), Beating("s", -SKEW)]
    is_over = threading.Event()

    def beat_all():
        while not is_over.wait(0.1):
            for one in workers:
                one.beat()

    beating = start(beat_all)
    judge = AgentHere(beat_interval=0.2, worker_timeout=1)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        judge.beat()
        assert not any(one.was_reaped for one in workers)
        is_over.wait(0.05)
    is_over.set()
    beating.result()
    # A clock that is fast would keep its worker alive for 100 seconds more.
    wait_until(lambda: judge.beat() and all(one.was_reaped for one in workers), seconds=60)
    assert Worker.objects.filter(pk__in=[w.uuid for w in workers], stopped_at=None).count() == 0
