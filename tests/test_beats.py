"""A worker's sign of life: before it, no claim; and a busy database is no gap in it."""

import threading
import time

import pytest
from django.db import connection
from django.db.utils import OperationalError

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Worker
from django_dbqueue.worker.beats import Beats
from django_dbqueue.worker.options import Options, all_served
from django_dbqueue.worker.signalling import Signals, Wakeup
from django_dbqueue.worker.supervisor import Supervisor
from tests.kit.connections import other_connection

pytestmark = pytest.mark.usefixtures("db_rows")


def beats_of_nobody():
    return Beats("a" * 32, "default", [], 2, 10)


def test_no_child_is_forked_before_the_first_beat():
    """Killed before it, it would be missed by nobody, and its claims would wait for their time."""
    supervisor = Supervisor(Options(served=all_served()), Signals(Wakeup()))
    assert supervisor._fill() > 0
    assert supervisor.children.spawned == 0
    [contact] = supervisor.clerks
    contact.last = beats_of_nobody().beat({})
    assert supervisor.clerks.have_begun
    assert Worker.objects.count() == 1


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite locks the whole database")
def test_a_beat_waits_for_another_writer():
    beats = beats_of_nobody()
    writing = threading.Event()

    def write():
        other = other_connection()
        with other.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            writing.set()
            time.sleep(0.3)
            cursor.execute("COMMIT")
        other.close()

    writer = threading.Thread(target=write)
    writer.start()
    assert writing.wait(10)
    assert beats.beat({})
    writer.join()
    assert beats.patience.failures == 0


def test_a_request_to_stop_comes_with_the_next_beat_that_is_written():
    beats = beats_of_nobody()
    assert beats.beat({})
    Worker.objects.update(stop_requested_at=DbNow())

    def away(execute, sql, params, many, context):
        raise OperationalError("server closed the connection unexpectedly")

    with connection.execute_wrapper(away):
        assert not beats.beat({})
    assert beats.beat({"paused": True}).stop_requested
    assert Worker.objects.get().paused


def test_a_beat_is_one_statement(django_assert_num_queries):
    beats = beats_of_nobody()
    beats.beat({})
    with django_assert_num_queries(1):
        beats.beat({})


def test_a_first_beat_whose_answer_was_lost_has_begun():
    """Else the worker would beat for ever, and never start a child."""

    def lost(execute, sql, params, many, context):
        answer = execute(sql, params, many, context)
        if sql.startswith("INSERT"):
            raise OperationalError("server closed the connection unexpectedly")
        return answer

    beats = beats_of_nobody()
    with connection.execute_wrapper(lost):
        assert not beats.beat({})
    assert not beats.has_begun
    assert beats.beat({})
    assert beats.has_begun
