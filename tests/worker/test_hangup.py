"""A worker in a terminal stops in good order when its terminal is closed."""

import os
import signal

import pytest

from django_dbqueue.models import Worker
from tests.kit.processes import running, wait_for_lines
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def terminal():
    """Both its ends: ours and the worker's."""
    ends = list(os.openpty())
    yield ends
    for end in ends:
        os.close(end)


def start(database_url, terminal):
    """A worker whose terminal it is, as if it was started in a window of its own."""
    name = os.ttyname(terminal[1])
    within = ["sh", "-c", f'exec "$@" <{name} >{name}', "sh"]
    return running(database_url, "runworker", "queueapp.Note", within=within)


def test_a_worker_whose_terminal_is_closed_finishes_what_runs_and_stops(
    database_url, log, terminal
):
    Note.objects.create(log=log, seconds=0.5)
    with start(database_url, terminal) as process:
        wait_for_lines(log, 1)
        os.close(terminal.pop(0))
        os.close(terminal.pop())
        assert process.end() == 0
    assert Note.objects.done().count() == 1
    assert Worker.objects.get().stop_reason == signal.SIGHUP.name
