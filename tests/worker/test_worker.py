"""Workers as users run them: real processes, real signals."""

import os
import signal
import time

import pytest
from django.db import connection

from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.models import Worker
from django_dbqueue.monitor.worker_list import running_jobs
from django_dbqueue.states import Status
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh
from tests.kit.processes import (
    QUICK,
    give_back,
    lines,
    open_gate,
    running,
    wait_for_lines,
    worker,
)
from tests.kit.waiting import wait_until
from tests.queueapp.models import Fleeting, Mailed, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def fill(count, **columns):
    return Note.objects.bulk_create([Note(text=str(n), **columns) for n in range(count)])


def started(log):
    """How often each job was started."""
    keys = [line.split()[0] for line in lines(log)]
    return {key: keys.count(key) for key in keys}


def test_a_worker_runs_every_job_once_and_stops_when_nothing_is_ready(database_url, log):
    fill(300, log=log)
    Fleeting.objects.create()
    Mailed.objects.create(log=log)
    with worker(database_url, "--stop-when-empty", "--threads", "2") as process:
        assert process.end() == 0, process.stderr
    assert Note.objects.done().count() == 300
    assert len(lines(log)) == len(set(lines(log))) == 301
    assert Fleeting.objects.count() == 0
    assert at_work() == 0


def test_a_failing_job_is_retried_and_buried_with_its_errors(database_url, log):
    job = Note.objects.create(text="seven", action="fail", log=log)
    with worker(database_url, DBQUEUE_REAP_INTERVAL="0.2"):
        wait_until(lambda: fresh(job).status == Status.BURIED)
    buried = fresh(job)
    assert buried.attempts == len(buried.errors) == len(lines(log)) == 3
    assert "note seven does not work" in buried.last_error
    assert "do_fail" in buried.errors[0]["traceback"]


def test_once_runs_exactly_one_job(database_url, log):
    fill(2, log=log)
    with worker(database_url, "--once") as process:
        assert process.end() == 0, process.stderr
    assert len(lines(log)) == Note.objects.done().count() == 1


def test_term_gives_back_what_has_not_started_and_finishes_what_runs(database_url, log):
    fill(10, log=log, action="wait_at_gate")
    with worker(database_url) as process:
        wait_for_lines(log, 1)
        process.send(signal.SIGTERM)
        wait_until(lambda: Note.objects.ready().filter(attempts=0).count() == 9)
        open_gate(log)
        assert process.end() == 0
    assert Note.objects.done().count() == len(lines(log)) == 1
    assert Note.objects.ready().filter(attempts=0).count() == 9
    assert at_work() == 0


def test_a_second_signal_stops_at_once_and_charges_nothing(database_url, log):
    [job] = fill(1, log=log, seconds=60)
    with worker(database_url) as process:
        wait_for_lines(log, 1)
        process.send(signal.SIGTERM)
        wait_until(lambda: "stopping" in process.stderr)
        process.send(signal.SIGTERM)
        assert process.end() == 0
    give_back(database_url, process, Note)
    back = fresh(job)
    assert (back.status, back.attempts, back.crashes) == (Status.READY, 0, 0)


def test_the_shutdown_timeout_ends_a_job_that_does_not_end(database_url, log):
    [job] = fill(1, log=log, seconds=60)
    with worker(database_url, "--shutdown-timeout", "0.5") as process:
        wait_for_lines(log, 1)
        process.send(signal.SIGTERM)
        assert process.end() == 0
    give_back(database_url, process, Note)
    assert (fresh(job).status, fresh(job).attempts) == (Status.READY, 0)


def test_jobs_of_a_killed_child_run_again_at_once(database_url, log):
    first, *_ = fill(4, log=log, action="wait_at_gate")
    with worker(database_url) as process:
        wait_for_lines(log, 1)
        [child] = process.children()
        os.kill(child, signal.SIGKILL)
        open_gate(log)
        killed = time.monotonic()
        wait_for_lines(log, 2)
        print(f"handed over after {time.monotonic() - killed:.2f} s")
        wait_until(lambda: Note.objects.done().count() == 4)
    assert Note.objects.get(crashes__gt=0) == first
    assert fresh(first).crashes == 1
    assert started(log)[str(first.pk)] == 2
    assert sum(started(log).values()) == 5


def test_jobs_of_a_killed_process_group_are_taken_over_by_another_worker(database_url, log):
    fill(6, log=log, action="wait_at_gate")
    with (
        worker(database_url, **QUICK) as victim,
        worker(database_url, "queueapp.Fleeting", **QUICK) as heir,
    ):
        wait_for_lines(log, 1)
        victim.send_group(signal.SIGKILL)
        killed = time.monotonic()
        wait_until(lambda: Note.objects.ready().count())
        print(f"given back after {time.monotonic() - killed:.1f} s")
        open_gate(log)
        heir.send(signal.SIGTERM)
        heir.end()
    work_off("queueapp.note")
    assert Note.objects.done().count() == 6
    assert at_work() == 0


def test_a_job_that_kills_its_worker_is_buried_after_the_third_time(database_url, log):
    poison = Note.objects.create(action="crash", log=log)
    neighbours = fill(20, log=log)
    with worker(database_url):
        wait_until(lambda: fresh(poison).status == Status.BURIED)
        wait_until(lambda: Note.objects.done().count() == 20)
    assert started(log)[str(poison.pk)] == 3
    assert {started(log)[str(job.pk)] for job in neighbours} == {1}
    assert len(fresh(poison).errors) == fresh(poison).crashes == 3
    assert Note.objects.done().exclude(crashes=0, attempts=1).count() == 0


def test_two_workers_share_the_jobs_and_run_none_twice(database_url, log):
    fill(300, log=log, action="wait_at_gate")
    with (
        worker(database_url, "--stop-when-empty") as one,
        worker(database_url, "--stop-when-empty", "--processes", "2") as two,
    ):
        wait_for_lines(log, 3)
        open_gate(log)
        assert (one.end(60), two.end(60)) == (0, 0)
    assert len(lines(log)) == 300
    assert set(started(log).values()) == {1}
    assert len({line.split()[2] for line in lines(log)}) == 3


def test_a_frozen_worker_is_relieved_and_its_late_writes_are_refused(database_url, log):
    [job] = fill(1, log=log, action="wait_at_gate")
    with worker(database_url, **QUICK) as frozen, worker(database_url, **QUICK) as heir:
        wait_for_lines(log, 1)
        owner = fresh(job).owner
        holder = frozen if Worker.objects.get(pk=owner.split(".")[0]).pid == frozen.pid else heir
        holder.freeze()
        open_gate(log)
        wait_until(lambda: fresh(job).status == Status.DONE)
        second = fresh(job).owner
        holder.send_group(signal.SIGCONT)
        wait_until(lambda: at_work() == 2)
        holder.send(signal.SIGTERM)
        holder.end()
    assert "ClaimLost" in holder.stderr
    assert fresh(job).owner == second != owner


def test_the_worker_row_tells_what_its_children_run(database_url, log):
    [job] = fill(1, log=log, seconds=5)
    with worker(database_url):
        wait_for_lines(log, 1)
        row = wait_until(lambda: Worker.objects.exclude(running={}).first())
        wait_until(lambda: f"queueapp.note {job.pk}" in dict(running_jobs(fresh(row))))
        assert fresh(row).memory > 10_000_000


def test_an_unknown_table_is_refused_and_the_known_ones_are_named(database_url):
    with worker(database_url, "shop.Thumbnial") as process:
        assert process.end() == 1
    assert "shop.Thumbnial" in process.stderr
    assert "queueapp.Note" in process.stderr


def test_missing_migrations_name_the_one_command_and_exit_with_3(tmp_path):
    with worker(f"sqlite:///{tmp_path}/new.sqlite3") as process:
        assert process.end() == 3
    assert "python manage.py migrate" in process.stderr


def test_a_reaper_of_its_own_gives_back_the_jobs_of_dead_workers(database_url):
    Note.objects.create()
    Worker.objects.create(uuid="f" * 32, host="gone", pid=1)
    [job] = claim(table_of(Note, "default"), "default", 1, "f" * 32 + ".1-1")
    quick = {"DBQUEUE_WORKER_TIMEOUT": "1", "DBQUEUE_BEAT_INTERVAL": "0.2"}
    with running(database_url, "runreaper", "--interval", "0.2", **quick):
        wait_until(lambda: fresh(job).status == Status.READY)
        wait_until(lambda: Worker.objects.get(pk="f" * 32).stopped_at)
    assert (fresh(job).attempts, fresh(job).crashes, fresh(job).losses) == (0, 0, 1)


def test_a_touch_from_inside_restarts_the_time_to_run(database_url, log):
    job = Note.objects.create(action="touch", time_to_run=5, log=log)
    with worker(database_url, "--stop-when-empty") as process:
        assert process.end() == 0
    assert (fresh(job).status, len(lines(log))) == (Status.DONE, 1)


@pytest.mark.each_database
def test_a_restarted_database_is_waited_for(database_url, log):
    """What a worker's connections suffer when a server goes away, without one: they are killed."""
    fill(40, log=log, seconds=0.05)
    with worker(database_url) as process:
        wait_for_lines(log, 5)
        assert kill_other_connections() or connection.vendor == "sqlite"
        wait_until(lambda: Note.objects.done().count() == 40)
        assert process.popen.poll() is None
    assert max(started(log).values()) <= 2


def at_work():
    return Worker.objects.filter(stopped_at=None).count()


def kill_other_connections():
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return cursor.rowcount
        if connection.vendor == "mysql":
            cursor.execute(
                "SELECT id FROM information_schema.processlist "
                "WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            )
            ids = [number for (number,) in cursor.fetchall()]
            for number in ids:
                cursor.execute("KILL %s", [number])
            return len(ids)
    return 0
