"""The fences around what may raise anything: user code, and our own threads."""

import asyncio
import os
import signal
import sys
import threading
import time
from functools import partial

import pytest
from django.db import connections

from django_dbqueue.current import is_workers_own
from django_dbqueue.guard import (
    THREAD_DIED,
    capture,
    error_of,
    exit_if_it_dies,
    message_of,
    raised,
)
from django_dbqueue.states import Status
from django_dbqueue.worker.children import Children
from django_dbqueue.worker.consumer import Consumer, run_child
from django_dbqueue.worker.finisher import Finisher
from django_dbqueue.worker.forked import CHILD, leave
from django_dbqueue.worker.health import HealthCheck
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.runner import Runner
from django_dbqueue.worker.served import all_served, parse_served
from django_dbqueue.worker.session import close_before_fork
from django_dbqueue.worker.shared_memory import SharedMemory
from django_dbqueue.worker.signalling import Signals, WakeupPipe
from django_dbqueue.worker.stack_dumps import StackDump
from django_dbqueue.worker.supervisor import Supervisor
from tests.kit.jobs import fresh
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note, Unspeakable


@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]
)
def test_whatever_would_end_the_thread_is_a_failure(kind):
    with capture() as outcome:
        raise kind("now")
    called = error_of(raise_it, kind("now"))
    for error in (outcome.error, called):
        assert str(error) == f"it raised {kind.__name__}(now)"
        assert isinstance(raised(error), kind)


def test_the_outcome_of_a_call_is_what_it_raised():
    problem = ValueError("no")
    assert error_of(raise_it, problem) is problem
    assert error_of(str, problem) is None
    with pytest.raises(BaseExceptionGroup):
        error_of(raise_it, BaseExceptionGroup("more", [KeyboardInterrupt()]))


def raise_it(error):
    raise error


def test_a_message_is_what_a_terminal_and_a_database_take():
    assert message_of(ValueError("a\0b\ud800")) == "a\\0b\\ud800"
    assert message_of(Unspeakable()).startswith("<exception str() failed>")


def test_what_a_thread_does_outside_of_jobs_is_its_workers_own():
    seen = []
    exit_if_it_dies(lambda: seen.append(is_workers_own()))
    assert seen == [True]
    assert not is_workers_own()


class Broken:
    """A stderr that is gone."""

    def write(self, text):
        raise OSError("no such pipe")

    flush = write


@pytest.mark.parametrize("is_told", [True, False])
def test_a_process_does_not_outlive_a_thread_that_it_needs(capfd, is_told):
    def die():
        raise RuntimeError("our own fault")

    pid = os.fork()
    if not pid:
        sys.stderr = sys.__stderr__ if is_told else Broken()
        thread = threading.Thread(target=partial(exit_if_it_dies, die))
        thread.start()
        thread.join()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == THREAD_DIED
    assert ("our own fault" in capfd.readouterr().err) is is_told


def our_fault(*_):
    raise RuntimeError("our own fault")


@pytest.mark.parametrize(
    ("where", "name"), [(Consumer, "_is_over"), (Finisher, "end"), (Runner, "take")]
)
def test_a_child_ends_when_any_of_its_threads_dies(db_rows, monkeypatch, where, name):
    monkeypatch.setattr(where, name, our_fault)
    Note.objects.create()
    shared, (reader, writer) = SharedMemory(1), os.pipe()
    shared.beat("default", time.monotonic(), 1)
    connections.close_all()  # no connection crosses a fork
    pid = os.fork()
    if not pid:
        options = Options(served=all_served())
        leave(
            CHILD, partial(run_child, options, StackDump(), "f" * 32 + ".1-", shared, None, reader)
        )
    if name == "end":
        os.write(writer, b"!")
    assert exit_code(pid) == THREAD_DIED


@pytest.mark.parametrize(
    ("where", "name"),
    [(HealthCheck, "turn"), (Supervisor, "_heed_signals"), (Children, "kill_due")],
)
def test_what_goes_wrong_in_a_step_of_the_supervisor_holds_up_no_other(
    db_rows, monkeypatch, where, name
):
    monkeypatch.setattr(where, name, our_fault)
    job = Note.objects.create()
    options = Options(served=parse_served(["queueapp.Note"]), stop_when_empty=0)
    close_before_fork()
    pid = os.fork()
    if not pid:
        leave("supervisor", Supervisor(options, Signals(WakeupPipe())).run)
    assert exit_code(pid) == 0
    assert fresh(job).status == Status.DONE


def exit_code(pid):
    try:
        status = wait_until(lambda: (found := os.waitpid(pid, os.WNOHANG))[0] and found, 10)[1]
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return os.waitstatus_to_exitcode(status)
