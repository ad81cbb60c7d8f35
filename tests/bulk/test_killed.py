"""Workers that are killed in the middle of a bulk action: another one goes on where it was."""

import signal

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User

from tests.kit.bulk import TABLE, asked, entries
from tests.kit.jobs import fresh
from tests.kit.processes import QUICK, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

# The transactions in which jobs and the row are written are the database's.
pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]
JOBS = 8_000


@pytest.fixture
def chief():
    user = User.objects.create_superuser("chief")
    yield user
    user.delete()


def killed_in_the_middle(database_url, chief):
    """The row of an action whose worker was killed when it had done some of it."""
    for priority in range(5, 25):  # on a busy machine it may be over before we see that it began
        row = asked("prioritize", user=chief, priority=priority)
        with worker(database_url, TABLE, **QUICK) as process:
            wait_until(lambda asked=row: fresh(asked).seen, every=0.001)
            process.send_group(signal.SIGKILL)
        if fresh(row).state != "done":
            return row, priority
        LogEntry.objects.all().delete()
    raise AssertionError("it was never in the middle")


def test_a_killed_worker_costs_no_job_and_no_number(database_url, chief):
    Note.objects.enqueue_many([{"text": "one"}] * JOBS)
    row, priority = killed_in_the_middle(database_url, chief)
    with worker(database_url, TABLE, **QUICK):
        wait_until(lambda: fresh(row).state == "done")
    row = fresh(row)
    assert (row.total, row.seen) == (JOBS, JOBS)
    # Each once: what has its priority already is not changed again.
    assert (row.counts["changed"], row.counts["skipped"]) == (JOBS, 0)
    assert Note.objects.filter(priority=priority).count() == JOBS
    [entry] = entries()
    assert entry.startswith(f"Prioritize to {priority}: {JOBS} changed; bulk action {row.pk}; ")
