"""Why and how a worker stops, pauses and goes on."""

import logging
import os
import signal
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from django_dbqueue.worker.children import Children
from django_dbqueue.worker.forked import leave
from tests.kit.forked_children import RefusedOnce
from tests.kit.jobs import overwrite
from tests.kit.processes import (
    lines,
    open_gate,
    running,
    wait_for_a_beat,
    wait_for_lines,
    worker,
)
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

QUICK = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": "5"}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def fill(count, **columns):
    return Note.objects.bulk_create([Note(**columns) for _ in range(count)])


def the_row(process):
    return Worker.objects.get(pid=process.pid)


def pids(log):
    return {line.split()[2] for line in lines(log)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_the_reason_for_a_stop_stands_in_the_log_and_in_the_row(database_url, log, number):
    fill(1, log=log, action="wait_at_gate")
    with worker(database_url, **QUICK) as process:
        wait_for_lines(log, 1)
        process.send(number)
        name = number.name
        wait_until(lambda: the_row(process).stop_reason == name)
        assert the_row(process).stopped_at is None
        open_gate(log)
        assert process.end() == 0
    assert f"has stopped ({name}); jobs that it ran: 1" in process.stderr
    row = the_row(process)
    assert (row.stop_reason, row.running, row.stopped_at is not None) == (name, {}, True)
    assert Note.objects.done().count() == 1


def test_a_stop_that_its_row_asks_for_is_named(database_url):
    with worker(database_url, **QUICK) as process:
        row = wait_until(Worker.objects.first)
        row.stop_requested_at = row.beat_at
        row.save(update_fields=["stop_requested_at"])
        assert process.end() == 0
    assert "requested" in the_row(process).stop_reason


def test_a_reaper_too_stops_when_its_row_asks_for_it(database_url):
    with running(database_url, "runreaper", **QUICK) as process:
        row = wait_until(lambda: Worker.objects.filter(pid=process.pid).first())
        call_command("dbqueue", "workers", "--stop", row.uuid)
        assert process.end() == 0
    assert the_row(process).stop_reason == "requested in its row"


@pytest.mark.parametrize("processes", ["1", "3"])
def test_after_max_jobs_a_worker_exits_with_12_and_has_run_no_more(database_url, log, processes):
    fill(3, log=log, expires_at=LONG_AGO)
    fill(100, log=log)
    options = ["--max-jobs", "25", "--processes", processes, "--batch-size", "7"]
    with worker(database_url, *options) as process:
        assert process.end() == 12
    assert len(lines(log)) == Note.objects.done().filter(expires_at=None).count() == 25
    assert Note.objects.ready().filter(attempts=0).count() == 75
    assert "--max-jobs" in the_row(process).stop_reason


def test_max_jobs_counts_what_a_killed_child_had_run(database_url, log):
    fill(2, log=log)
    fill(38, log=log, action="wait_at_gate")
    with worker(database_url, "--max-jobs", "10", "--batch-size", "5") as process:
        wait_for_lines(log, 3)
        [child] = process.children()
        wait_until(lambda: Note.objects.done().count() == 2)
        os.kill(child, signal.SIGKILL)
        open_gate(log)
        assert process.end() == 12
    assert len(lines(log)) == 10


def test_max_jobs_counts_what_replaced_children_run(database_url, log):
    fill(60, log=log, seconds=0.02)
    options = ["--max-jobs", "40", "--processes", "2", "--threads", "3", "--batch-size", "5"]
    with worker(database_url, *options) as process:
        for count in (5, 10, 15, 20):
            wait_for_lines(log, count)
            process.send(signal.SIGHUP)
        assert process.end() == 12
    assert len(lines(log)) == 40


def test_max_jobs_counts_what_was_run_and_not_what_had_expired(log):
    fill(3, log=log, expires_at=LONG_AGO)
    fill(20, log=log)
    with InlineWorker("queueapp.note", "--max-jobs", "10") as inline:
        assert inline.run() == 10
        assert inline.run() == 0
    assert len(lines(log)) == 10


def test_max_jobs_counts_those_that_are_run_alone():
    for job in fill(2):
        overwrite(job, crashes=1)
    with InlineWorker("queueapp.note", "--max-jobs", "1") as inline:
        assert inline.run() == 1
    assert sorted(Note.objects.values_list("status", flat=True)) == [Status.READY, Status.DONE]


def test_a_child_that_cannot_be_forked_is_forked_later(monkeypatch):
    children = Children([None], 1, "a" * 32, lambda *_: 0)
    monkeypatch.setattr(os, "fork", refuse_once := RefusedOnce(os.fork))
    assert 0 < children.fill(lambda shared: None) <= 5
    assert (children.shares, children.living) == ([None], {})
    children._next_spawn = 0.0
    children.fill(lambda shared: None)
    assert (len(children.living), refuse_once.calls) == (1, 2)
    wait_until(lambda: list(children.exited_children()))


class Handler(logging.Handler):
    """Cannot even be closed."""

    def close(self):
        raise RuntimeError("closed already")


def test_a_forked_process_ends_whatever_happens_in_it():
    handler = Handler()
    pid = os.fork()
    if not pid:
        leave("named", lambda: 3)
    _, status = os.waitpid(pid, 0)
    logging._handlerList.remove(weakref.ref(handler))  # type: ignore[attr-defined]
    assert os.waitstatus_to_exitcode(status) == 3


def test_a_forked_process_that_cannot_be_named_ends_too(capfd):
    pid = os.fork()
    if not pid:
        try:
            leave("\udcff", lambda: 3)
        finally:  # not another run of the tests
            os._exit(7)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert "UnicodeEncodeError" in capfd.readouterr().err


def test_a_forked_process_has_its_name_before_it_does_anything(tmp_path):
    note = tmp_path / "name"
    pid = os.fork()
    if not pid:
        leave("named", lambda: note.write_text(Path("/proc/self/comm").read_text()) and 3)
    _, status = os.waitpid(pid, 0)
    assert (os.waitstatus_to_exitcode(status), note.read_text()) == (3, "named\n")


def test_max_jobs_runs_suspects_too(database_url, log):
    fill(1, log=log, action="crash")
    with worker(database_url, "--max-jobs", "3") as process:
        assert process.end() == 12
    assert len(lines(log)) == 3
    assert Note.objects.get().status == Status.BURIED


def test_after_max_time_a_worker_exits_with_12_and_finishes_what_runs(database_url, log):
    fill(1, log=log, seconds=7)
    with worker(database_url, "--max-time", "6", **QUICK) as process:
        wait_for_lines(log, 1)
        assert process.end() == 12
    assert Note.objects.done().count() == 1
    assert "--max-time" in the_row(process).stop_reason


def test_above_max_memory_a_worker_exits_with_12(database_url):
    with worker(database_url, "--max-memory", "20", **QUICK) as process:
        assert process.end() == 12
    assert "--max-memory" in the_row(process).stop_reason


def test_a_worker_waits_for_more_as_long_as_stop_when_empty_for_says(database_url, log):
    with worker(database_url, "--stop-when-empty-for", "6") as process:
        wait_until(Worker.objects.first)
        fill(1, log=log)
        wait_until(lambda: Note.objects.done().count() == 1)
        enqueued = time.monotonic()
        fill(1, log=log)
        assert process.end() == 0
        assert time.monotonic() - enqueued > 6
    assert Note.objects.done().count() == 2
    assert the_row(process).stop_reason == "nothing is ready"


def test_hup_replaces_the_children_one_by_one_and_loses_nothing(database_url, log):
    def have_worked(children):
        fill(2, log=log, seconds=0.1)
        return len(pids(log)) == children

    fill(20, log=log, seconds=0.1)
    with worker(database_url, "--processes", "2") as process:
        wait_until(lambda: have_worked(2), every=0.1)
        before = set(process.children())
        process.send(signal.SIGHUP)
        most = 0

        def replaced():
            nonlocal most
            most = max(most, len(process.children()))
            return len(process.children()) == 2 and not before & set(process.children())

        wait_until(replaced)
        assert most <= 3
        wait_until(lambda: have_worked(4), every=0.1)
        wait_until(lambda: Note.objects.done().count() == Note.objects.count())
    assert " died " not in process.stderr
    assert len(lines(log)) == Note.objects.count()
    assert set(Note.objects.values_list("attempts", "crashes")) == {(1, 0)}


def test_usr2_pauses_and_cont_goes_on(database_url, log):
    fill(20, log=log, seconds=0.1)
    with worker(database_url, **QUICK) as process:
        wait_for_lines(log, 2)
        process.send(signal.SIGUSR2)
        wait_until(lambda: the_row(process).paused)
        wait_until(lambda: not Note.objects.claimed().exists())
        paused_at = len(lines(log))
        fill(1, log=log)
        assert Note.objects.ready().filter(attempts=0).count() == 21 - paused_at
        process.send(signal.SIGCONT)
        wait_until(lambda: Note.objects.done().count() == 21)
        wait_until(lambda: not the_row(process).paused)
    assert len(lines(log)) == 21


def test_a_paused_worker_claims_nothing(database_url, log):
    with worker(database_url, **QUICK) as process:
        wait_until(Worker.objects.first)
        process.send(signal.SIGUSR2)
        wait_until(lambda: the_row(process).paused)
        wait_for_a_beat(process)  # the look that was under way is over
        fill(3, log=log)
        wait_for_a_beat(process)
        assert Note.objects.ready().count() == 3
        process.send(signal.SIGTERM)
        assert process.end() == 0


def test_a_signal_to_the_whole_group_stops_in_good_order(database_url, log):
    """What a terminal's Ctrl-C and many process managers send."""
    fill(5, log=log, action="wait_at_gate")
    with worker(database_url) as process:
        wait_for_lines(log, 1)
        process.send_group(signal.SIGINT)
        wait_until(lambda: Note.objects.ready().count() == 4)
        open_gate(log)
        assert process.end() == 0
    assert Note.objects.done().count() == len(lines(log)) == 1
    assert not Note.objects.exclude(crashes=0).exists()


def test_a_health_file_that_cannot_be_written_is_refused(database_url):
    with pytest.raises(CommandError, match="--health-file"):
        call_command("runworker", "--health-file", "/nowhere/at/all", "--verbosity", "0")


def test_reload_is_refused_without_debug():
    with pytest.raises(CommandError, match="DEBUG"):
        call_command("runworker", "--reload")


@pytest.mark.parametrize(
    "wrong",
    [["--max-jobs", "0"], ["--max-time", "0"], ["--max-memory", "x"], ["--stop-when-empty-for=-1"]],
)
def test_a_limit_that_makes_no_sense_is_refused_by_name(wrong):
    name = wrong[0].partition("=")[0].removeprefix("--").replace("-", ".")
    with pytest.raises(CommandError, match=name):
        call_command("runworker", "--once", *wrong)
