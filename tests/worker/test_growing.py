"""A worker of ``--processes 1-3``: it grows while jobs wait, shrinks when idle, and loses none."""

import os
import signal
import time

import pytest
from django.db import connection

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.torture.proxy import Way
from tests.kit.processes import QUICK, lines, worker
from tests.kit.silent_server import proxied
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.process]

HASTY = ("--target-wait", "0.2", "--balance-cooldown", "0.2")


def growing(database_url, *args, **environment):
    return worker(database_url, "queueapp.Note", *HASTY, *args, **QUICK | environment)


def notes(count, **columns):
    Note.objects.bulk_create([Note(**columns) for _ in range(count)])


def all_done():
    return not Note.objects.exclude(status=Status.DONE).exists()


def pool():
    """What the worker's row says of its processes."""
    return Worker.objects.get().pool


def decisions():
    return [one["text"] for one in pool()["decisions"]]


def pids(log):
    """Of the children that have left lines."""
    return {line.split()[2] for line in lines(log)}


@pytest.mark.each_database
def test_a_worker_grows_while_jobs_wait_and_shrinks_when_it_idles(database_url):
    with growing(database_url, "--processes", "1-3") as process:
        wait_until(lambda: Worker.objects.exists() and pool()["processes"] == 1)
        notes(150, seconds=0.05)
        wait_until(lambda: "2 -> 3 processes: " in process.stderr)
        wait_until(all_done)
        wait_until(lambda: len(process.children()) == 1 and pool()["processes"] == 1)
        grown = [text for text in decisions() if text.startswith("1 -> 2 processes: ")]
        shrunk = [text for text in decisions() if text.startswith("3 -> 2 processes: for ")]
        assert len(grown) == len(shrunk) == 1
        assert "queueapp.note:default has waited" in grown[0] or "jobs are ready" in grown[0]
        assert grown[0] in process.stderr
        process.send(signal.SIGTERM)
        assert process.end() == 0
    assert set(Note.objects.values_list("attempts", flat=True)) == {1}


@pytest.mark.each_database
def test_nothing_is_lost_when_the_children_and_the_supervisor_of_a_growing_worker_are_killed(
    database_url,
):
    notes(600, seconds=0.05)
    with growing(database_url, "--processes", "1-3") as process:
        for size in (1, 2, 3):
            wait_until(lambda size=size: len(process.children()) >= size)
            os.kill(process.children()[-1], signal.SIGKILL)
        wait_until(lambda: len(process.children()) >= 2)
        os.kill(process.pid, signal.SIGKILL)
        process.end()
    assert not all_done()
    with growing(database_url, "--processes", "1-3", "--stop-when-empty-for", "15") as process:
        wait_until(all_done)
    assert Note.objects.done().count() == 600


@pytest.mark.parametrize(
    ("option", "run", "code"), [("--max-jobs=60", 60, 12), ("--stop-when-empty", 100, 0)]
)
def test_a_growing_worker_runs_as_many_as_it_is_told(database_url, log, option, run, code):
    notes(100, seconds=0.05, log=log)
    with growing(database_url, "--processes", "1-3", option) as process:
        wait_until(lambda: len(pids(log)) > 1)
        assert process.end() == code
    assert len(lines(log)) == Note.objects.done().count() == run


def has_children_for_both():
    # As long as nobody has seen jobs of a queue wait, any child with a free thread takes them.
    notes(1, queue="quick")
    return pool()["queues"] == {"queueapp.note:slow": 1, "queueapp.note:quick": 1}


def test_queues_have_children_of_their_own(database_url, log):
    """And one that others are given has not kept what it had fetched."""
    balanced = ("--processes", "2", "--balance", "auto")
    notes(400, queue="slow", seconds=0.3)  # more than it runs until then
    with growing(database_url, *balanced) as process:
        wait_until(lambda: Note.objects.done().exists())
        wait_until(has_children_for_both)
        wait_until(lambda: not Note.objects.filter(queue="quick").exclude(status=Status.DONE))
        notes(20, queue="quick", log=f"{log}.quick")
        notes(3, queue="slow", log=f"{log}.slow", seconds=0.1, priority=0)
        wait_until(lambda: len(lines(f"{log}.quick")) == 20 and len(lines(f"{log}.slow")) == 3)
        assert Note.objects.ready().filter(queue="slow").exists()
        assert "queueapp.note:quick 0 -> 1" in process.stderr
    quick, slow = (
        {line.split()[2] for line in lines(f"{log}.{name}")} for name in ("quick", "slow")
    )
    assert len(quick) == len(slow) == 1
    assert quick != slow


@pytest.mark.each_database
@pytest.mark.skipif(connection.vendor == "sqlite", reason="it is a file")
def test_while_its_database_is_silent_a_worker_decides_nothing_and_still_obeys():
    notes(400, seconds=0.05)
    timing = {"DBQUEUE_BEAT_INTERVAL": "0.5", "DBQUEUE_WORKER_TIMEOUT": "4"}
    options = ("--processes", "1-40", "--shutdown-timeout", "1")
    with proxied() as silent, growing(silent.url, *options, **timing) as process:
        wait_until(lambda: "1 -> 2 processes" in process.stderr)
        silent.proxy.be(Way.SWALLOW)
        # What was under way as the silence began.
        wait_until(lambda: "does not answer" in process.stderr)
        known = process.stderr.count("worker.scaled")
        assert 1 <= known < 20
        end = time.monotonic() + 2
        wait_until(lambda: time.monotonic() > end)
        assert process.stderr.count("worker.scaled") == known
        process.send(signal.SIGTERM)
        assert process.end() == 0
