"""What goes wrong in and around user code must not stop the jobs beside it."""

import os
import signal
import time

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.utils import OperationalError

from django_dbqueue.conf import conf
from django_dbqueue.lifecycle.policy import policy_of
from django_dbqueue.states import Status
from django_dbqueue.worker.session import RECONNECT_SECONDS_MAX, ReconnectBackoff
from django_dbqueue.worker.shared_memory import SharedMemory
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh
from tests.kit.processes import wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Batch, BrokenBackoff, Moody, Note
from tests.worker.test_worker import kill_other_connections

pytestmark = pytest.mark.usefixtures("db_rows")


def test_a_job_that_deletes_itself_holds_up_nobody():
    Note.objects.bulk_create([Note(action="delete" if n == 3 else "") for n in range(10)])
    work_off("queueapp.note")
    assert Note.objects.done().count() == Note.objects.count() == 9


def test_a_broken_backoff_is_replaced_and_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(Moody, "works", True)
    BrokenBackoff.objects.bulk_create([BrokenBackoff(fails=n == 1) for n in range(5)])
    said = work_off("queueapp.brokenbackoff")
    assert not Moody.works
    assert BrokenBackoff.objects.done().count() == 4
    assert BrokenBackoff.objects.delayed().count() == 1
    assert "retrying in 60 s" in said


def test_a_job_that_calls_sys_exit_has_failed_and_holds_up_nobody():
    job = Note.objects.create(action="exit")
    Note.objects.bulk_create([Note() for _ in range(5)])
    work_off("queueapp.note", "--backoff", "600")
    assert Note.objects.done().count() == 5
    assert fresh(job).status == Status.DELAYED
    assert "SystemExit(7)" in fresh(job).last_error


def test_a_job_enqueued_by_the_last_job_is_run_before_the_worker_stops(database_url):
    Note.objects.create(action="enqueue", seconds=0.4)
    with worker(database_url, "--stop-when-empty") as process:
        assert process.end() == 0, process.stderr
    assert Note.objects.done().count() == 2


@pytest.mark.skipif(connection.vendor == "sqlite", reason="nobody can close its connections")
def test_a_connection_that_died_while_idle_costs_no_attempt(database_url):
    first = Note.objects.create(action="query")
    with worker(database_url):
        wait_until(lambda: fresh(first).status == Status.DONE)
        time.sleep(1.2)
        assert kill_other_connections()
        second = Note.objects.create(action="query")
        wait_until(lambda: fresh(second).status == Status.DONE)
    assert fresh(second).errors == []


def test_the_shortest_time_to_run_holds_for_a_whole_batch(database_url, log):
    jobs = [Batch(text="slow", log=log, time_to_run=seconds) for seconds in (100, 1)]
    Batch.objects.bulk_create(jobs)
    with worker(database_url, "--batch-size", "5"):
        wait_for_lines(log, 1)
        wait_until(lambda: all(job.errors for job in Batch.objects.all()))
    assert {job.errors[0]["exception"] for job in Batch.objects.all()} == {"TimeToRunExceeded"}


def test_a_worker_waits_for_a_database_that_is_not_there_yet(tmp_path):
    missing = tmp_path / "later"
    with worker(f"sqlite:///{missing}/new.sqlite3") as process:
        wait_until(lambda: "trying again until it works" in process.stderr)
        missing.mkdir()
        assert process.end() == 3
    assert "manage.py migrate" in process.stderr


def refused(monkeypatch, name, value):
    """What runworker says of a setting in its environment."""
    monkeypatch.setenv(f"DBQUEUE_{name}", value)
    with pytest.raises(CommandError) as refusal:
        call_command("runworker", "--once")
    return str(refusal.value)


def test_times_that_contradict_each_other_are_refused(monkeypatch):
    told = refused(monkeypatch, "WORKER_TIMEOUT", "3")
    assert "WORKER_TIMEOUT (3 s) must be more than twice BEAT_INTERVAL (2 s)" in told


@pytest.mark.parametrize("name", ["SLEEP", "SHUTDOWN_TIMEOUT"])
def test_a_setting_below_0_is_refused(monkeypatch, name):
    told = refused(monkeypatch, name, "-1")
    assert f"DBQUEUE_{name} must be at least 0 and at most 315360000 seconds, not -1" in told


def test_a_board_is_read_whole_while_another_process_writes_it():
    shared = SharedMemory(3)
    slot = shared.slot(1)
    child = os.fork()
    if not child:
        while True:
            slot.start(b"default\x1ft\x1f1", 0.0, 1e9)
            slot.finish()
            shared.beat("default", time.monotonic(), 7)
    deadlines, end = set(), time.monotonic() + 1
    try:
        while time.monotonic() < end or not deadlines:
            deadlines |= {job.deadline for job in shared.running()}
            assert (at := shared.beaten_at("default")) == 0 or abs(time.monotonic() - at) < 5
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert deadlines == {1e9}


def test_a_pause_that_makes_no_sense_becomes_a_minute():
    assert policy_of(BrokenBackoff).pause(1) == 60


def test_no_pause_before_another_try_is_longer_than_a_second():
    """Work goes on within 3 s of a database's return, and outcomes are written before a reaper may
    judge."""
    backoff = ReconnectBackoff("trying")
    pauses = [backoff.failed(OperationalError("away")) for _ in range(20)]
    assert max(pauses) <= min(RECONNECT_SECONDS_MAX, conf["WORKER_TIMEOUT"] / 4) <= 1
    assert pauses[0] <= 0.1 < pauses[-1]
    backoff.worked()
    assert backoff.failed(OperationalError("away")) <= 0.1


def test_an_outage_is_logged_once_for_each_of_its_first_reasons(caplog):
    backoff = ReconnectBackoff("trying")
    for reason in ["killed", "too many", "too many", "killed", *"abcdefgh"]:
        backoff.failed(OperationalError(reason))
    assert reasons(caplog) == ["killed", "too many", "a", "b", "c"]
    backoff.worked()
    caplog.clear()
    backoff.failed(OperationalError("killed"))
    assert reasons(caplog) == ["killed"]


def reasons(caplog):
    warnings = [one for one in caplog.records if one.levelname == "WARNING"]
    return [one.args[1] for one in warnings if "trying again" in one.message]
