"""Workers as users run them: real processes, real signals."""

import os
import signal

import pytest

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from tests.conftest import fresh, wait_until
from tests.processes import lines, running, wait_for_lines, worker
from tests.queueapp.models import Batch, Fleeting, Mailed, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def fill(count, **columns):
    return Note.objects.bulk_create([Note(text=str(n), **columns) for n in range(count)])


def test_a_worker_runs_all_jobs_once_and_stops_when_nothing_is_ready(database_url, log):
    fill(300, log=log)
    Fleeting.objects.create()
    Mailed.objects.create(log=log)
    with worker(database_url, "--stop-when-empty", "--threads", "2") as process:
        assert process.end() == 0, process.stderr
    assert Note.objects.done().count() == 300
    assert len(lines(log)) == len(set(lines(log))) == 301
    assert Fleeting.objects.count() == 0
    assert Worker.objects.count() == 0
