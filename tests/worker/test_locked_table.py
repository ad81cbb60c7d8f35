"""Somebody locks a whole queue table: a migration, a backup."""

import signal

import pytest
from django.db import connection

from django_dbqueue.models import Worker
from tests.kit.jobs import fresh, table_locked
from tests.kit.processes import lines, running, wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Fleeting, Note

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor == "sqlite", reason="its locks are the whole database's"),
]
QUICK = {"DBQUEUE_BEAT_INTERVAL": "0.5", "DBQUEUE_WORKER_TIMEOUT": "8"}


def test_the_beats_and_the_other_tables_go_on_and_nothing_runs_twice(database_url, log):
    note = Note.objects.create(log=log, seconds=3)
    with worker(database_url, **QUICK) as process, running(database_url, "runreaper", **QUICK):
        wait_for_lines(log, 1)
        row = Worker.objects.get(pid=process.pid)
        with table_locked(Note):
            for _ in range(6):
                before = fresh(row).beat_at
                wait_until(lambda: fresh(row).beat_at > before, seconds=6)  # noqa: B023
            Fleeting.objects.create()
            wait_until(lambda: not Fleeting.objects.exists(), seconds=30)
        wait_until(lambda: fresh(note).finished_at, seconds=30)
        assert fresh(row).stopped_at is None
    assert len(lines(log)) == 1
    assert "taken for dead" not in process.stderr


def test_of_a_locked_table_two_batches_at_most_run_unrecorded_and_the_others_go_on(
    database_url, log
):
    Note.objects.bulk_create(Note(log=log) for _ in range(4_000))
    with worker(database_url, **QUICK) as process:
        wait_until(lambda: len(lines(log)) > 500, every=0.001)
        with table_locked(Note):
            for _ in range(2):
                Fleeting.objects.create()
                wait_until(lambda: not Fleeting.objects.exists(), seconds=40)
            process.send_group(signal.SIGKILL)
            process.end()
    assert len(lines(log)) < 4_000
    assert len(lines(log)) - Note.objects.done().count() <= 200
