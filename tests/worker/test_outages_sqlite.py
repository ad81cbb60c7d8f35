"""A SQLite file whose write lock somebody keeps, or that may not grow any more."""

import time
from urllib.parse import quote

import pytest
from django.db import connection

from django_dbqueue.states import Status
from tests.kit.outage_scene import at_work, check_each_ran_once, notes, scene, settled, starts
from tests.kit.processes import lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytest_plugins = "tests.kit.private_server"
pytestmark = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="a server locks rows; see worker/test_outages.py"
)
PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA max_page_count="
# Each outcome takes fifty pages: a claim, which takes next to none, finds room when they do not.
LARGE_OUTCOMES = f"""
CREATE TRIGGER large_outcomes AFTER UPDATE OF status ON {Note._meta.db_table}
WHEN new.status = {Status.BURIED:d}
BEGIN INSERT INTO ballast VALUES (zeroblob(200000)); END
"""
ROOM = 4 * 50 + 25


@pytest.mark.proof
def test_no_job_runs_twice_when_the_write_lock_was_kept(private, log, full):
    with scene(private, log, full) as made, private.locked():
        time.sleep(made.seconds * 2 / 3)


def test_a_worker_that_starts_while_the_write_lock_is_kept_waits_for_it(private, log):
    """Else a system check of Django's would say that this SQLite knows no JSON."""
    notes().create(log=log)
    with worker(f"{private.database_url}?timeout=1") as process:
        with private.locked():
            wait_until(lambda: "connecting: database is locked" in process.stderr)
        check_each_ran_once(log, process)


@pytest.mark.proof
def test_nothing_starts_while_outcomes_find_no_room_and_none_is_lost(private, log):
    private.sql("CREATE TABLE ballast (filling)")
    private.sql(LARGE_OUTCOMES)
    notes().bulk_create(Note(action="fail", log=log) for _ in range(200))
    [[pages]] = private.sql("PRAGMA page_count")
    full = f"{private.database_url}?init_command={quote(f'{PRAGMAS}{pages + ROOM}')}"
    with worker(full, "queueapp.Note:default", "--tries", "1", "--batch-size", "5") as process:
        wait_until(lambda: "recording outcomes: database or disk is full" in process.stderr)
        before = settled(log)
        assert 0 < before < 200
        print(f"{before} of 200 jobs had started when nothing could be written any more")
        private.sql("DROP TRIGGER large_outcomes")
        private.sql("DELETE FROM ballast")
        wait_until(lambda: notes().buried().count() == 200)
        at_work(process)
    assert len(lines(log)) == len(starts(log)) == 200
    assert not notes().exclude(attempts=1, crashes=0).exists()
