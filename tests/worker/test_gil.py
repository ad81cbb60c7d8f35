"""A job in C code that lets no other thread of its child run."""

import pytest

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from tests.kit.jobs import fresh
from tests.kit.outage_scene import FAST
from tests.kit.processes import lines, running, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.mark.any_database  # whose supervisor beats in another process
@pytest.mark.timing
@pytest.mark.proof
def test_a_job_that_holds_the_gil_is_not_taken_for_dead(database_url, log, full):
    """It does so for longer than a worker may go without a beat; the supervisor beats for it."""
    timing, seconds = ({}, 20) if full else (FAST, 3)
    job = Note.objects.create(action="hold_gil", text=str(seconds), log=log)
    waiting = Note.objects.create(log=log)
    beats = set()

    def done():
        beats.update(Worker.objects.filter(pid=process.pid).values_list("beat_at", flat=True))
        return fresh(job).status == Status.DONE

    with (
        running(database_url, "runreaper", **timing),
        worker(database_url, "queueapp.Note", **timing) as process,
    ):
        wait_until(lambda: lines(log))
        wait_until(done, seconds=seconds * 3 + 20)
        wait_until(lambda: fresh(waiting).status == Status.DONE)
    assert len(lines(log)) == 2
    assert (fresh(job).attempts, fresh(job).crashes) == (1, 0)
    assert len(beats) > 4
    print(f"{len(beats)} beats while a job held the GIL for {seconds} s")
