"""A worker that ends when nothing is ready, as from cron: first it looks after what others left."""

import os
import signal
import time
import uuid
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from tests.kit.jobs import claimed, fresh, overwrite
from tests.kit.processes import has_ended, wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

QUICK = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": "1"}


def of_a_dead_worker() -> Note:
    """A job whose worker has not beaten for an hour, and that has an hour to run."""
    ago = timezone.now() - timedelta(hours=1)
    gone = Worker.objects.create(
        uuid=uuid.uuid4().hex, host="gone", pid=1, serves=["queueapp.note"]
    )
    Worker.objects.filter(pk=gone.pk).update(beat_at=ago)
    job: Note = claimed()
    overwrite(job, owner=f"{gone.uuid}.1", retry_at=timezone.now() + timedelta(hours=1))
    return job


def due() -> Note:
    job = Note.objects.create()
    overwrite(job, status=Status.DELAYED, retry_at=timezone.now() - timedelta(minutes=1))
    return job


@pytest.mark.parametrize("stop", ["--stop-when-empty", "--stop-when-empty-for=0.1"])
def test_it_runs_what_a_dead_worker_had_and_what_has_become_due(
    database_url: str, stop: str
) -> None:
    jobs = [of_a_dead_worker(), due()]
    with worker(database_url, stop, **QUICK) as process:
        assert process.end(60) == 0, process.stderr
    assert [fresh(job).status for job in jobs] == [Status.DONE] * 2


def test_it_runs_what_a_killed_child_had_however_long_that_takes_to_give_back(
    database_url: str, log: str
) -> None:
    Note.objects.create(log=log, seconds=60, time_to_run=1)
    other = Note.objects.create(log=log, seconds=4)
    served = "queueapp.Note", "--tries=1", "--threads=2", "--stop-when-empty"
    with worker(database_url, *served) as process:
        wait_for_lines(log, 2)
        [agent], [child] = process.agents(), process.children()
        os.kill(agent, signal.SIGSTOP)
        wait_until(lambda: has_ended(child))
        end = time.monotonic() + 2  # in which a successor would have found nothing
        wait_until(lambda: time.monotonic() > end)
        os.kill(agent, signal.SIGCONT)
        assert process.end(60) == 0, process.stderr
    assert fresh(other).status == Status.DONE


def test_the_run_of_one_job_is_of_one_that_has_just_become_due() -> None:
    job = due()
    call_command("runworker", "queueapp.note", "--once", verbosity=0)
    assert fresh(job).status == Status.DONE
