"""``call_command("runworker")``: it returns to the code that calls it."""

import threading

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from tests.kit.processes import running
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
CODE = """
import signal
from django.core.management import call_command
from tests.queueapp.models import Note
before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
call_command("runworker", "queueapp.note", stop_when_empty=0)
assert before == [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
print("done:", Note.objects.done().count())
"""


REAPER = """
import os, signal, threading, time
from django.core.management import call_command
from django_dbqueue.models import Worker
signals = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
before = [signal.getsignal(one) for one in signals]
def stop():
    while not Worker.objects.exists():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=stop).start()
call_command("runreaper")
assert before == [signal.getsignal(one) for one in signals]
print("it returns")
"""


def test_a_reaper_returns_and_leaves_signals_as_they_were(database_url):
    with running(database_url, "shell", "-c", REAPER) as process:
        assert process.end(60) == 0, process.stderr
        assert "it returns" in process.stdout


def test_it_returns_and_leaves_signals_as_they_were(database_url):
    Note.objects.create()
    with running(database_url, "shell", "-c", CODE) as process:
        assert process.end(60) == 0, process.stderr
        assert "done: 1" in process.stdout


@pytest.mark.parametrize("option", [{"once": True}, {"stop_when_empty": 0}])
def test_inside_a_transaction_it_is_refused_and_says_what_to_do(option):
    with transaction.atomic(), pytest.raises(CommandError, match="JobTestMixin"):
        call_command("runworker", "queueapp.note", **option)


@pytest.mark.parametrize("command", [["runworker", "queueapp.note"], ["runreaper"]])
def test_it_needs_the_main_thread(command):
    caught = []

    def call():
        try:
            call_command(*command)
        except CommandError as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert f"{command[0]} needs the main thread" in str(caught[0])
