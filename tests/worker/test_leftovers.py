"""What a job leaves behind on its thread's connection reaches no other job."""

import pytest
from django.db import connection

from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh
from tests.kit.processes import lines, worker
from tests.queueapp.leftovers import KEPT
from tests.queueapp.models import Effect, Note, Transfer

pytestmark = pytest.mark.usefixtures("db_rows")

# How a session is changed, and how one sees that it was.
CHANGES = {
    "sqlite": [("PRAGMA cache_size = 123", "PRAGMA cache_size", "123")],
    "mysql": [
        ("SET SESSION group_concat_max_len = 123", "SELECT @@group_concat_max_len", "123"),
        ("SELECT GET_LOCK('left', 0)", "SELECT IS_USED_LOCK('left') = CONNECTION_ID()", "1"),
    ],
    "postgresql": [
        ("SET statement_timeout = '123s'", "SHOW statement_timeout", "123s"),
        ("SET ROLE pg_monitor", "SELECT current_user", "pg_monitor"),
        ("SELECT pg_advisory_lock(123)", "SELECT COUNT(*) FROM pg_locks WHERE objid = 123", "1"),
        ("CREATE TEMP TABLE leftover (id int)", "SELECT to_regclass('leftover')", "leftover"),
    ],
}[connection.vendor]


@pytest.fixture(autouse=True)
def _nothing_is_kept(db_rows):
    yield
    KEPT.clear()


@pytest.mark.parametrize("action", ["leave_open", "leave_open_and_fail", "leave_autocommit_off"])
def test_a_transaction_that_a_job_leaves_open_costs_no_other_job_anything(action):
    Note.objects.create(action=action)
    others = [Note.objects.create(action="query") for _ in range(3)]
    work_off("queueapp.note")
    assert [fresh(other).errors for other in others] == [[]] * 3
    assert Note.objects.done().count() >= 3


@pytest.mark.parametrize("action", ["leave_open", "leave_open_and_fail"])
def test_of_a_job_that_leaves_its_one_transaction_open_nothing_is_written(action):
    left = Transfer.objects.create(action=action)
    others = [Transfer.objects.create() for _ in range(3)]
    work_off("queueapp.transfer")
    assert [fresh(other).finished_at is None for other in others] == [False] * 3
    assert Effect.objects.count() == 3
    assert not Effect.objects.filter(job=left.pk).exists()
    assert fresh(left).errors != []


@pytest.mark.each_database
@pytest.mark.parametrize(("change", "ask", "changed"), CHANGES)
def test_no_setting_lock_or_role_of_a_session_reaches_the_next_job(
    change, ask, changed, database_url, log
):
    Note.objects.create(action="execute", text=change, log=f"{log}.change")
    Note.objects.create(action="execute", text=ask, log=log)
    with worker(database_url, "queueapp.Note", "--threads", "1", "--stop-when-empty") as process:
        assert process.end() == 0
    assert Note.objects.done().count() == 2
    # The first line is of the run itself.
    assert lines(log)[1] != changed


@pytest.mark.each_database
def test_where_a_job_leaves_nothing_the_connection_stays(database_url, log):
    ask = {
        "sqlite": "SELECT 1",
        "mysql": "SELECT CONNECTION_ID()",
        "postgresql": "SELECT pg_backend_pid()",
    }[connection.vendor]
    Note.objects.bulk_create(Note(action="execute", text=ask, log=log) for _ in range(3))
    with worker(database_url, "queueapp.Note", "--threads", "1", "--stop-when-empty") as process:
        assert process.end() == 0
    assert len({line for line in lines(log) if " " not in line}) == 1
