"""A job over its time to run is stopped, whatever it does, and its stack is kept."""

import os
import signal
from functools import partial
from typing import Any

import pytest
from django.db.models import Sum

from django_dbqueue.models import Minute
from django_dbqueue.states import Status
from django_dbqueue.worker.child import Child
from django_dbqueue.worker.shared_memory import Running, SharedMemory
from django_dbqueue.worker.stack_dumps import StackDump
from tests.kit.jobs import fresh
from tests.kit.processes import lines, open_gate, wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "python": ({"action": "spin"}, "do_spin"),
    # A handler that reads the stacks of threads that move on may crash: it is not the first resort.
    "deaf": ({"action": "spin_deaf"}, "do_spin"),
    "sleep": ({"seconds": 60}, "in run"),
    "gil": ({"action": "hold_gil", "text": "60"}, "hold_gil"),
    "socket": ({"action": "listen"}, "do_listen"),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_stopped_recorded_with_its_stack_and_retried(database_url, log, way):
    columns, place = WAYS[way]
    late = Note.objects.create(time_to_run=1, log=log, **columns)
    neighbours = [Note.objects.create(log=log) for _ in range(5)]
    with worker(database_url, "--backoff", "3600") as process:
        wait_until(lambda: Note.objects.done().count() == 5)
        # Fetched ahead, and not charged for it.
        assert {(fresh(job).attempts, fresh(job).crashes) for job in neighbours} == {(1, 0)}
    assert "is over its time to run" in process.stderr
    assert (fresh(late).status, fresh(late).attempts) == (Status.DELAYED, 1)
    [error] = fresh(late).errors
    assert error["exception"] == "TimeToRunExceeded"
    assert place in error["traceback"]
    assert 1 <= error["seconds"] < 30
    assert fresh(late).crashes == 0


def test_what_other_jobs_have_come_to_is_counted(database_url, log):
    Note.objects.create(seconds=60, time_to_run=1, log=log)
    for action in ("", "", "fail"):
        Note.objects.create(action=action, log=log)
    with worker(database_url, "--threads", "2", "--backoff", "3600") as process:
        wait_until(lambda: "is over its time to run" in process.stderr)
        wait_until(lambda: Note.objects.filter(status=Status.DELAYED).count() == 2)
        process.send(signal.SIGTERM)
        process.end()
    summed = Minute.objects.aggregate(completed=Sum("completed"), failed=Sum("failed"))
    assert summed == {"completed": 2, "failed": 2}


def test_a_child_is_not_killed_before_it_has_written_but_for_a_while():
    shared, stacks = SharedMemory(1), StackDump()
    child = Child(0, "", shared, stacks, os.open(os.devnull, os.O_WRONLY), None)
    child.kill_soon([Running("default", "queueapp.note", "1", 0.0, 0.0, 1)])
    os.write(stacks._file.fileno(), b'Thread 0x1 (most recent call first):\n  File "a.py"\n')
    wait_until(lambda: stacks.has_answered([1]))
    assert not child.may_be_killed(child.write_until - 0.1)
    assert child.may_be_killed(child.write_until)
    shared.has_written = True
    assert child.may_be_killed(child.write_until - 0.1)
    os.close(child.control)
    stacks.close()


def test_without_attempts_left_it_is_buried(database_url, log):
    late = Note.objects.create(seconds=60, time_to_run=1, log=log)
    with worker(database_url, "--tries", "1") as process:
        wait_until(lambda: "buried: 1 of 1 attempts used" in process.stderr)
    assert fresh(late).status == Status.BURIED


def test_what_ran_in_other_threads_runs_again_uncharged(database_url, log):
    late = Note.objects.create(seconds=60, time_to_run=1, log=log)
    other = Note.objects.create(action="wait_at_gate", log=log)
    with worker(database_url, "--threads", "2", "--tries", "1"):
        wait_for_lines(log, 3)
        open_gate(log)
        wait_until(lambda: fresh(other).status == Status.DONE)
    assert (fresh(other).attempts, fresh(other).crashes, fresh(other).errors) == (1, 0, [])
    assert sum(line.startswith(f"{other.pk} ") for line in lines(log)) == 2
    assert fresh(late).errors[0]["exception"] == "TimeToRunExceeded"


def test_the_stack_of_a_job_that_crashed_its_process_is_kept(database_url, log):
    job = Note.objects.create(action="segfault", log=log)
    with worker(database_url):
        wait_until(lambda: fresh(job).status == Status.BURIED)
    for error in fresh(job).errors:
        assert error["exception"] == "WorkerLost"
        assert "Segmentation fault" in error["traceback"]
        assert "do_segfault" in error["traceback"]


def test_a_child_that_is_interrupted_while_it_writes_its_stacks_is_waited_for():
    stacks = StackDump()
    write = partial(os.write, stacks._file.fileno())
    write(b'Thread 0x1 (most recent call first):\n  File "claimer.py", line 7 in wait\n')
    wait_until(lambda: stacks.has_answered([1]))
    assert not stacks.has_answered([1, 2])
    write(b'Thread 0x2 (most recent call first):\n  File "job.py", line 9 in run\n')
    assert not stacks.has_answered([1, 2])
    wait_until(lambda: stacks.has_answered([1, 2]))
    assert stacks.of(2) == '  File "job.py", line 9 in run'
    stacks.close()


def test_a_child_that_cannot_write_its_stacks_is_killed_all_the_same_and_its_job_runs_again(
    database_url, log
):
    late = Note.objects.create(seconds=60, time_to_run=1, log=log)
    with worker(database_url) as process:
        wait_for_lines(log, 1)
        [child] = process.children()
        os.kill(child, signal.SIGSTOP)
        wait_for_lines(log, 2)
    assert fresh(late).errors[0]["exception"] == "TimeToRunExceeded"


def test_of_two_stacks_of_a_thread_the_first_is_kept():
    stacks = StackDump()
    for place in (b"hangs", b"ends"):
        os.write(stacks._file.fileno(), b"Thread 0x1 (most recent call first):\n  in %s\n" % place)
    assert stacks.of(1) == "  in hangs"
    stacks.close()
