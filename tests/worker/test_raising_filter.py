"""A log filter of the project's that raises costs lines, and nothing else."""

import signal

import pytest

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from tests.kit.jobs import fresh
from tests.kit.processes import QUICK, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("db_rows")]

RAISING = QUICK | {"DJANGO_SETTINGS_MODULE": "tests.kit.settings_raising_filter"}


def states(*jobs):
    return [fresh(job).status for job in jobs]


def test_a_worker_does_all_its_work_although_no_line_of_it_can_be_logged(database_url):
    """Jobs that fail, that kill their process, and that run for too long."""
    actions = {"bury": Status.BURIED, "crash": Status.BURIED, "": Status.DONE}
    jobs = [Note.objects.create(action=action) for action in actions]
    slow = Note.objects.create(seconds=60, time_to_run=1)
    with worker(database_url, "queueapp.note", "--shutdown-timeout", "5", **RAISING) as process:
        wait_until(lambda: states(*jobs) == [*actions.values()], 30)
        wait_until(lambda: fresh(slow).attempts > 1)
        process.send(signal.SIGTERM)
        assert process.end() == 0
        assert "a filter that does not work" in process.stderr
        assert "starts: pid" in process.stderr
    assert Worker.objects.get().stop_reason == "SIGTERM"
    assert fresh(jobs[1]).crashes == 3
