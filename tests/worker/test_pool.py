"""Django's connection pool and processes that fork."""

import os
import signal

import pytest
from django.db import connection

from tests.kit.processes import lines, running, wait_for_lines
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL has a pool"),
]
POOLED = {"DJANGO_SETTINGS_MODULE": "tests.kit.settings_pool"}


def test_a_worker_whose_project_has_a_pool_shares_no_connection_between_processes(
    database_url, log
):
    Note.objects.bulk_create([Note(log=log, action="query") for _ in range(500)])
    options = ["queueapp.Note", "--processes", "2", "--threads", "2"]
    with running(database_url, "runworker", *options, **POOLED) as process:
        wait_for_lines(log, 20)
        os.kill(process.children()[0], signal.SIGKILL)
        wait_until(lambda: Note.objects.done().count() == 500)
        process.send(signal.SIGTERM)
        assert process.end() == 0
    assert "Traceback" not in process.stderr
    assert len({line.split()[0] for line in lines(log)}) == 500


def test_a_reaper_whose_project_has_a_pool_passes(database_url):
    with running(database_url, "runreaper", "--once", **POOLED) as process:
        assert process.end() == 0
