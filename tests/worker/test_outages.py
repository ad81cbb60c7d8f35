"""A server that is stopped, frozen or killed under working workers."""

import time
from contextlib import ExitStack

import pytest
from django.db import connection

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from tests.kit.outage_scene import (
    ALIAS,
    FAST,
    at_work,
    check_each_ran_once,
    notes,
    resumed,
    scene,
    starts,
)
from tests.kit.processes import lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytest_plugins = "tests.kit.private_server"
pytestmark = pytest.mark.skipif(
    connection.vendor == "sqlite", reason="SQLite has no server; see worker/test_outages_sqlite.py"
)
LOAD = 2000  # jobs that are ready before each kill


@pytest.mark.proof
def test_no_job_runs_twice_when_the_server_was_stopped(private, log, full):
    with scene(private, log, full) as made, private.away():
        time.sleep(made.seconds)


@pytest.mark.proof
def test_no_job_runs_twice_when_the_server_was_frozen(private, log, full):
    with scene(private, log, full) as made, private.frozen():
        time.sleep(made.seconds)


@pytest.mark.proof
def test_a_server_killed_under_load_loses_nothing_and_is_found_again_at_once(private, log, full):
    workers, times = [], []
    with ExitStack() as stack:
        for _ in range(2):
            process = worker(private.database_url, "--threads", "2")
            workers.append(stack.enter_context(process))
        for _ in range(10 if full else 2):
            before = len(lines(log))
            missing = LOAD - notes().ready().count()
            notes().bulk_create(Note(seconds=0.01, log=log) for _ in range(missing))
            wait_until(lambda before=before: len(lines(log)) > before + 50)
            private.kill()
            private.start()
            times.append(resumed(log))
        check_each_ran_once(log, *workers)
    killed = f"{len(times)} kills, {len(lines(log))} jobs, 0 lost, 0 twice"
    print(f"{killed}; work resumed after", ", ".join(f"{seconds:.2f}" for seconds in times), "s")


def test_a_job_is_stopped_at_the_end_of_its_time_while_the_server_is_away(private, log):
    job = notes().create(seconds=60, time_to_run=1, log=log)
    with worker(private.database_url, "--tries", "1", **FAST) as process:
        wait_until(lambda: starts(log))
        with private.away():
            wait_until(lambda: "is over its time to run" in process.stderr)
        wait_until(lambda: notes().get(pk=job.pk).status == Status.BURIED)
        at_work(process)
    assert notes().get(pk=job.pk).errors[0]["exception"] == "TimeToRunExceeded"
    assert starts(log)[str(job.pk)] == 1


def test_a_worker_that_starts_while_its_server_is_away_waits_for_it(private, log):
    notes().create(log=log)
    private.stop()
    with worker(private.database_url) as process:
        wait_until(lambda: "connecting: " in process.stderr)
        private.start()
        check_each_ran_once(log, process)
        assert Worker.objects.using(ALIAS).count() == 1
