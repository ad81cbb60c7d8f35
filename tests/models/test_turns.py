"""Exactly-once jobs on SQLite, one after the other, and who else wants to write."""

import time
from contextlib import closing
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connection

from django_dbqueue.models import turns
from django_dbqueue.models.turns import EVERY, GAP, Turns
from tests.kit.connections import other_connection
from tests.kit.jobs import start, start_all
from tests.kit.processes import worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Transfer

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="the others have many writers"),
]

WRITERS, WRITES = 4, 4
DJANGOS = 5  # seconds for which a writer waits by default


def write_some():
    """As a request does that enqueues; ``OperationalError`` where it never gets the lock."""
    own = other_connection()
    options = {**own.settings_dict["OPTIONS"], "timeout": DJANGOS}
    own.settings_dict = {**own.settings_dict, "OPTIONS": options}
    with closing(own), own.cursor() as cursor:
        for _ in range(WRITES):
            try:
                cursor.execute("BEGIN IMMEDIATE")
            except OperationalError:  # a busy machine may stand still for as long, but not twice
                cursor.execute("BEGIN IMMEDIATE")
            cursor.execute("COMMIT")
            time.sleep(0.05)


@pytest.mark.process
def test_others_get_to_write_while_a_worker_drains(database_url):
    jobs = [Transfer(action="nap", data={"seconds": 0.05}) for _ in range(1000)]
    Transfer.objects.bulk_create(jobs)
    with worker(database_url, "queueapp.transfer", "--threads", "2"):
        wait_until(Transfer.objects.done().exists)
        start_all(*[write_some] * WRITERS)


@pytest.fixture
def clock(monkeypatch):
    """``now`` is to be set, in seconds; ``naps`` are those taken."""
    clock = SimpleNamespace(now=1000.5, naps=[])

    def nap(seconds):
        clock.naps.append(round(seconds, 3))
        clock.now += seconds

    monkeypatch.setattr(
        turns, "time", SimpleNamespace(monotonic=lambda: clock.now, time=lambda: clock.now)
    )
    monkeypatch.setattr(turns, "_nap", SimpleNamespace(wait=nap))
    return clock


def run(own, clock, seconds):
    with own.take():
        clock.now += seconds


def test_each_second_begins_with_a_gap(clock):
    own = Turns()
    for _ in range(40):
        run(own, clock, 0.05)
    naps = [nap for nap in clock.naps if nap]
    assert len(naps) == 2
    assert all(GAP - 0.05 <= nap <= GAP for nap in naps)


def test_a_job_that_runs_over_the_gap_is_followed_by_one(clock):
    own = Turns()
    for _ in range(3):
        run(own, clock, EVERY + 0.2)
    assert clock.naps == [0, GAP, GAP]


def test_a_job_that_comes_alone_waits_for_no_gap(clock):
    own = Turns()
    for _ in range(3):
        run(own, clock, 0.01)
        clock.now += GAP
    assert not any(clock.naps)


def test_jobs_of_several_threads_run_one_at_a_time():
    own, inside = Turns(), []

    def run_one():
        with own.take():
            inside.append(1)
            assert len(inside) == 1
            time.sleep(0.01)
            inside.pop()

    for thread in [start(run_one) for _ in range(4)]:
        thread.result()
