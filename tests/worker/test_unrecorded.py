"""How many jobs have run and are not recorded, while somebody holds the row of one of them."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from tests.kit.jobs import fresh, row_locked
from tests.kit.processes import Process, lines, open_gate, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

JOBS = 4_000
GROWN = 500  # jobs after which the batch has grown
STALLED = 3.0  # seconds without a job that starts or is recorded: longer than a lock is waited for
SIZES = pytest.mark.parametrize(
    ("size", "most"), [((), 200), (("--batch-size", "500"), 1000)], ids=["default", "500"]
)


@contextmanager
def draining(url: str, log: str, *options: str) -> Iterator[tuple[Process, Note]]:
    """A worker drains the queue, and somebody holds the row of a job that is about to end."""
    slow = Note.objects.create(action="wait_at_gate", log=log, priority=0)
    Note.objects.bulk_create(Note(log=log) for _ in range(JOBS))
    with worker(url, "queueapp.Note", "--threads", "2", *options) as process:
        wait_until(lambda: len(lines(log)) > GROWN, every=0.001)
        with row_locked(slow):
            open_gate(log)
            yield process, slow
        wait_until(lambda: process.popen.poll() is not None or done() == JOBS + 1)


def done() -> int:
    return Note.objects.done().count()


def unrecorded(log: str) -> int:
    ran = len(lines(log))
    return ran - done()


def most_unrecorded(log: str) -> int:
    """Until nothing moves any more."""
    most, seen, since = 0, (0, 0), time.monotonic()
    while time.monotonic() - since < STALLED:
        most = max(most, unrecorded(log))
        now = len(lines(log)), done()
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.01)
    return most


def settled(log: str) -> bool:
    """Whether no job starts any more."""
    before = len(lines(log))
    time.sleep(0.3)
    return before == len(lines(log))


@SIZES
def test_two_batches_at_most_have_run_and_are_not_recorded(database_url, log, size, most):
    with draining(database_url, log, *size):
        assert most_unrecorded(log) <= most
    assert len(lines(log)) == JOBS + 1


@pytest.mark.skipif(connection.vendor == "sqlite", reason="its locks are the whole database's")
def test_a_locked_row_holds_up_no_other_outcome(database_url, log):
    with draining(database_url, log) as (_, slow):
        wait_until(lambda: done() == JOBS, seconds=30)
        assert fresh(slow).state == "claimed"


@SIZES
def test_a_kill_then_repeats_no_more_than_those(database_url, log, size, most):
    with draining(database_url, log, *size) as (process, _):
        wait_until(lambda: settled(log))
        process.send_group(signal.SIGKILL)
        process.end()
        assert unrecorded(log) <= most
