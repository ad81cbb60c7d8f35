"""What PostgreSQL believes of a queue table may be long past; our looks keep to the indexes."""

import pytest
from django.db import connection

from django_dbqueue.lifecycle import reap
from django_dbqueue.worker.heartbeat import Heartbeat
from tests.kit.jobs import table
from tests.kit.processes import lines, worker
from tests.kit.query_plans import captured, complaints, read_by
from tests.lifecycle.test_growth import claimer
from tests.queueapp.models import Note
from tests.queueapp.planner import planner_settings

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="only its plans change so much"),
]

MANY = 8000
NOTES = Note._meta.db_table


def run(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)


def pages():
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_relation_size('{NOTES}') / 8192")
        return cursor.fetchone()[0]


@pytest.fixture
def seen_nearly_empty():
    """A backlog in a table that was analyzed while a few rows were left in it."""
    run(f"VACUUM {NOTES}")  # what earlier tests deleted is not to be read
    run(f"ALTER TABLE {NOTES} SET (autovacuum_enabled = off)")
    Note.objects.enqueue_many({} for _ in range(MANY))
    run(f"DELETE FROM {NOTES} WHERE id < (SELECT MAX(id) - 2 FROM {NOTES})")
    run(f"ANALYZE {NOTES}")
    Note.objects.enqueue_many({} for _ in range(3 * MANY))
    yield
    run(f"ALTER TABLE {NOTES} RESET (autovacuum_enabled)")
    run(f"ANALYZE {NOTES}")


def test_a_claimer_reads_what_it_claims_and_no_more(seen_nearly_empty):
    one = claimer(batch=50)
    with captured(NOTES) as statements:
        one.turn()
    assert len(one.buffer) == 50
    assert [text for statement in statements for text in complaints(statement, NOTES)] == []
    [claim] = [one for one in statements if one.is_write]
    # It reads what the deleted rows left behind, too, a quarter of all: once more where somebody's
    # snapshot has kept the look before it from marking their entries as dead.
    assert read_by(claim) < pages() * 3 / 4


def test_a_supervisor_finds_the_jobs_of_the_dead_by_the_index(seen_nearly_empty):
    run(
        f"UPDATE {NOTES} SET status = 1, owner = 'w' || id % 9 || '.1-1', "
        f"retry_at = NOW() + INTERVAL '1 hour'"
    )
    run(f"ANALYZE {NOTES}")
    Heartbeat("w", "default", [], 1, 10).session.prepare()
    with captured(NOTES) as statements:
        assert reap.reap_owner(table(), "gone.") == []
    assert [text for statement in statements for text in complaints(statement, NOTES)] == []


def test_users_code_works_with_the_projects_settings(database_url, log):
    Note.objects.create(action="settings", text="settings", log=log)
    theirs = planner_settings()
    with worker(database_url, "--stop-when-empty") as process:
        assert process.end() == 0, process.stderr
    # Its run, and the receivers of its start and of its completion.
    assert [line for line in lines(log) if "enable_sort" in line] == [theirs] * 3
