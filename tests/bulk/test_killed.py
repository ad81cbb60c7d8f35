"""Workers that are killed in the middle of a bulk action: another one goes on where it was."""

import signal

import pytest
from django.contrib.auth.models import User

from tests.kit.bulk import TABLE, asked, entries
from tests.kit.jobs import fresh
from tests.kit.processes import QUICK, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

# The transactions in which jobs and the row are written are the database's.
pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]
JOBS = 8_000


def test_a_killed_worker_costs_no_job_and_no_number(database_url):
    chief = User.objects.create_superuser("chief")
    Note.objects.enqueue_many([{"text": "one"}] * JOBS)
    row = asked("prioritize", user=chief, priority=5)
    with worker(database_url, TABLE, **QUICK) as process:
        wait_until(lambda: fresh(row).seen >= 1_000)
        process.send_group(signal.SIGKILL)
    done = fresh(row).seen
    assert 0 < done < JOBS, "it was not in the middle"
    with worker(database_url, TABLE, **QUICK):
        wait_until(lambda: fresh(row).state == "done")
    row = fresh(row)
    assert (row.total, row.seen) == (JOBS, JOBS)
    # Each once: what has its priority already is not changed again.
    assert (row.counts["changed"], row.counts["skipped"]) == (JOBS, 0)
    assert Note.objects.filter(priority=5).count() == JOBS
    [entry] = entries()
    assert entry.startswith(f"Prioritize to 5: {JOBS} changed; bulk action {row.pk}; ")
    chief.delete()
