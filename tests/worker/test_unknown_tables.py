"""Queue tables that another project has and this one has not: left alone, never in the way."""

import logging
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import User
from django.db import ProgrammingError, connection
from django.db.models import QuerySet

from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.mail.models import Email
from django_dbqueue.models import Queue, Worker
from django_dbqueue.states import Status
from tests.kit.command_line import status
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh, overwrite, reaper, table
from tests.kit.processes import worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note, Pruned

pytestmark = pytest.mark.usefixtures("db_rows")

LONG_AGO = "2020-01-01T00:00:00Z"
FAST = {
    "DBQUEUE_BEAT_INTERVAL": "0.2",
    "DBQUEUE_WORKER_TIMEOUT": "1",
    "DBQUEUE_REAP_INTERVAL": "0.2",
}


@contextmanager
def refused(word):
    """Statements that hold it have a fault of their own."""

    def run(execute, sql, *rest):
        if word in sql:
            raise ProgrammingError("for the test")
        return execute(sql, *rest)

    with connection.execute_wrapper(run):
        yield


def dead_worker(*serves, seconds=60, model=Note):
    """A worker that has been silent for so long, with a job of the model."""
    gone = Worker.objects.create(uuid="d" * 32, pid=1, host="gone", serves=list(serves))
    QuerySet(Worker).filter(pk=gone.pk).update(beat_at=DbNow(plus=-seconds))
    model.objects.create()
    [job] = claim(table(model), "default", 1, f"{gone.uuid}.1")
    return gone, job


def test_a_dead_worker_of_an_unknown_table_is_left_to_who_has_it(caplog):
    gone, job = dead_worker("queueapp.note", "queueapp.pruned:slow", model=Pruned)
    here, there = reaper(Note), reaper(Note, Pruned)
    for _ in range(3):
        here.turn(judge=lambda: True)
    assert (fresh(job).status, fresh(gone).stopped_at) == (Status.CLAIMED, None)
    [warning] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "queueapp.pruned: not looked after here, left to others" in warning
    there.turn(judge=lambda: True)
    assert fresh(job).status == Status.READY
    assert "taken for dead" in fresh(gone).stop_reason


def test_a_dead_worker_is_signed_off_whatever_ails_a_table_that_it_never_served():
    gone, job = dead_worker("queueapp.note")
    with refused(Pruned._meta.db_table):
        reaper(Note, Pruned).turn(judge=lambda: True)
    assert fresh(job).status == Status.READY
    assert "taken for dead" in fresh(gone).stop_reason


def test_what_is_known_here_comes_back_at_once():
    gone, job = dead_worker("queueapp.note", "elsewhere.thing")
    reaper(Note).turn(judge=lambda: True)
    assert fresh(job).status == Status.READY
    assert fresh(gone).stopped_at is None


def test_a_dead_worker_is_not_signed_off_while_a_table_that_it_served_is_left_out():
    gone, job = dead_worker("queueapp.note")
    here = reaper(Note)
    with refused("owner LIKE"):
        here.turn(judge=lambda: True)
    assert (fresh(job).status, fresh(gone).stopped_at) == (Status.CLAIMED, None)
    here._locked["default", "queueapp.note"] = float("inf")  # as after a lock that lasted
    here.turn(judge=lambda: True)
    assert (fresh(job).status, fresh(gone).stopped_at) == (Status.CLAIMED, None)
    here._locked.clear()
    here.turn(judge=lambda: True)
    assert (fresh(job).status, fresh(job).losses) == (Status.READY, 1)
    assert "taken for dead" in fresh(gone).stop_reason


def test_after_an_hour_nobody_waits_for_a_project_that_has_the_table():
    gone, _ = dead_worker("elsewhere.thing", seconds=3700)
    reaper(Note).turn(judge=lambda: True)
    assert "taken for dead" in fresh(gone).stop_reason


def test_what_a_worker_holds_that_is_signed_off_ends_with_its_time():
    gone, job = dead_worker("queueapp.note")
    Worker.objects.filter(pk=gone.pk).sign_off("for the test")
    overwrite(job, retry_at=LONG_AGO)
    reaper(Note).turn(judge=lambda: True)
    assert (fresh(job).status, fresh(job).losses) == (Status.DELAYED, 0)


def test_rows_of_an_app_that_was_removed_wait_for_its_return(database_url, monkeypatch):
    """A worker of a project without the test app beside its tables, then one with it."""
    gone, held = dead_worker("queueapp.note")
    waiting, due = Note.objects.create(), Note.objects.enqueue(retry_at=LONG_AGO)[0]
    Queue.objects.pause("queueapp_note", "default", None, "the app is gone")
    mail = Email.objects.create(message="not a message")
    monkeypatch.delenv("PYTEST_VERSION")
    with worker(database_url, DBQUEUE_TESTS="0", **FAST) as process:
        wait_until(lambda: fresh(mail).status == Status.BURIED)
        wait_until(lambda: "queueapp.note: not looked after here, left to others" in process.stderr)
        process.popen.terminate()
        assert process.end() == 0
    assert process.stderr.count("not looked after here") == 1
    states = [fresh(job).status for job in (held, waiting, due)]
    assert states == [Status.CLAIMED, Status.READY, Status.DELAYED]
    Note.objects.resume()
    work_off("queueapp.note")
    assert Note.objects.done().count() == 3
    assert fresh(gone).stopped_at is not None


def test_a_pause_of_an_unknown_table_is_in_nobodys_way(client):
    Queue.objects.pause("elsewhere_thing", "default", None, "tea")
    Note.objects.create()
    assert "queueapp.note" in status()
    assert "queueapp.note" in status("--json")
    staff = User.objects.create_superuser("staff")
    client.force_login(staff)
    for page in ("queue", "worker"):
        assert client.get(f"/admin/dbqueue/{page}/").status_code == 200
    staff.delete()
    assert len(Note.objects.claim()) == 1
