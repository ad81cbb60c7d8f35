"""Children whose supervisor is gone: they finish what they can, until others take their jobs."""

import signal
import time

import pytest

from django_dbqueue.states import Status
from tests.kit.jobs import fresh
from tests.kit.processes import has_ended, lines, open_gate, wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note
from tests.worker.test_worker import fill

pytestmark = pytest.mark.usefixtures("db_rows")

QUICK = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": "1"}


def test_children_end_when_their_supervisor_is_gone(database_url, log):
    fill(100, log=log, seconds=1)
    with worker(database_url) as process:
        wait_for_lines(log, 1)
        [child] = process.children()
        process.send(signal.SIGKILL)
        wait_until(lambda: has_ended(child), seconds=30)
    assert Note.objects.done().count() == len(lines(log))
    assert Note.objects.claimed().count() == 0


@pytest.mark.parametrize(
    ("first", "heard"),
    [(None, "worker.started"), (signal.SIGTERM, "is stopping"), (signal.SIGHUP, "replacing")],
)
def test_what_hangs_is_ended_before_others_take_its_job(database_url, log, first, heard):
    """Its supervisor, which would have stopped it, was killed."""
    quick = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": "2"}
    Note.objects.create(action="spin", log=log)
    with worker(database_url, **quick) as process:
        wait_for_lines(log, 1)
        child, *_ = process.children()
        if first:
            process.send(first)
        wait_until(lambda: heard in process.stderr)
        process.send(signal.SIGKILL)
        wait_until(lambda: has_ended(child), seconds=30)


def test_what_begins_to_hold_the_gil_after_its_supervisor_is_ended_too(database_url, log):
    quick = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": "3"}
    Note.objects.create(action="hold_gil_after_the_gate", text="60", log=log)
    with worker(database_url, **quick) as process:
        wait_for_lines(log, 1)
        [child] = process.children()
        process.send(signal.SIGKILL)
        wait_until(lambda: "leaving within " in process.stderr)
        open_gate(log)
        wait_until(lambda: has_ended(child), seconds=30)


def test_the_silence_of_a_frozen_supervisor_counts_when_it_is_killed(database_url, log):
    timing = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": "10"}
    Note.objects.create(action="spin", log=log)
    with worker(database_url, **timing) as process:
        wait_for_lines(log, 1)
        process.send(signal.SIGSTOP)
        frozen = time.monotonic()
        wait_until(lambda: time.monotonic() - frozen > 1.5)
        process.send(signal.SIGKILL)
        wait_until(lambda: "leaving within " in process.stderr)
        _, _, left = process.stderr.partition("leaving within ")
    assert float(left.split()[0]) < 8.7


def test_after_term_a_job_may_take_longer_than_a_dead_worker_is_given(database_url, log):
    job = Note.objects.create(seconds=2, log=log)
    with worker(database_url, **QUICK) as process:
        wait_for_lines(log, 1)
        process.send(signal.SIGTERM)
        assert process.end() == 0
    assert (fresh(job).status, fresh(job).attempts) == (Status.DONE, 1)
