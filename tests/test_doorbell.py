"""Idle workers hear of new jobs: of commits on SQLite, of notifications on PostgreSQL."""

import threading
import time

import pytest
from django.db import connection, connections, transaction

from django_dbqueue.dialects import dialect_of
from django_dbqueue.worker.doorbell import Doorbell
from tests.conftest import other_connection, wait_until
from tests.processes import lines, worker
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

LONG = 30.0  # seconds; what ends such a sleep is no time-out
tells = pytest.mark.skipif(
    not hasattr(connection.features, "has_select_for_update") or connection.vendor == "mysql",
    reason="this database tells nobody of commits",
)


@pytest.fixture
def notify(monkeypatch):
    monkeypatch.setenv("DBQUEUE_NOTIFY", "1")


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def listening():
    """A dialect on a connection of its own, that listens."""
    own = other_connection()
    own.ensure_connection()
    dialect = dialect_of(own)
    dialect.listen()
    dialect.has_news()
    return own, dialect


def test_whoever_rings_first_or_in_between_ends_the_sleep():
    bell = Doorbell([])
    bell.ring()
    bell.ring()
    bell.sleep(LONG)
    started = time.monotonic()
    bell.sleep(0.05)
    assert time.monotonic() - started >= 0.05
    thread = in_a_thread(lambda: (time.sleep(0.05), bell.ring()))
    bell.sleep_until_news(LONG)
    thread.join()


@tells
def test_a_commit_of_another_connection_is_news_once(notify):
    own, dialect = listening()
    assert not dialect.has_news()
    Note.objects.create()
    wait_until(dialect.has_news)
    assert not dialect.has_news()
    own.close()


@tells
def test_what_is_rolled_back_is_no_news(notify):
    own, dialect = listening()
    with transaction.atomic():
        Note.objects.create()
        assert not dialect.has_news()
        transaction.set_rollback(True)
    assert not dialect.has_news()
    own.close()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL notifies")
@pytest.mark.parametrize(
    ("enqueue", "rings"),
    [
        (lambda: Note.objects.create(), True),
        (lambda: Note.objects.bulk_create([Note(), Note()]), True),
        (lambda: Note.objects.enqueue(dedup_key="a"), True),
        (lambda: Note.objects.enqueue(delay=60), False),
        (lambda: Note.objects.count(), False),
    ],
)
def test_ready_jobs_ring_however_they_are_enqueued(notify, enqueue, rings):
    dialect_of(connections["default"])._rung_at = 0.0
    own, dialect = listening()
    enqueue()
    assert dialect.has_news() is rings
    own.close()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL notifies")
def test_unless_it_is_asked_for_nobody_is_notified():
    own, dialect = listening()
    Note.objects.create()
    assert (dialect.descriptor, dialect.has_news()) == (None, False)
    own.close()


@tells
def test_a_worker_that_sleeps_for_long_starts_a_new_job_at_once(notify, database_url, log):
    with worker(database_url, "queueapp.Note", "--sleep", "600") as process:
        wait_until(lambda: "worker.started" in process.stderr)
        for count in (1, 2, 3):
            # Long enough for the pauses to grow.
            time.sleep(1)
            Note.objects.create(log=log)
            wait_until(lambda count=count: len(lines(log)) == count, seconds=5)
