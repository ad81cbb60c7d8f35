"""A worker's sign of life: before it, no claim; and a busy database is no gap in it."""

import threading
import time
from types import SimpleNamespace

import pytest
from django.db import connection
from django.db.utils import OperationalError

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Worker
from django_dbqueue.worker import heartbeat as module
from django_dbqueue.worker.heartbeat import Heartbeat
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import all_served
from django_dbqueue.worker.signalling import Signals, WakeupPipe
from django_dbqueue.worker.supervisor import Supervisor
from tests.kit.connections import other_connection

pytestmark = pytest.mark.usefixtures("db_rows")


INTERVAL, TIMEOUT = 2, 10  # seconds


def beats_of_nobody():
    return Heartbeat("a" * 32, "default", [], INTERVAL, TIMEOUT)


@pytest.fixture
def clock(monkeypatch):
    """The monotonic clock of the beats: ``now`` is to be set."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def beat_for(seconds, beats, clock):
    for _ in range(seconds // INTERVAL):
        clock.now += INTERVAL
        assert beats.beat({})


def away(execute, sql, params, many, context):
    raise OperationalError("server closed the connection unexpectedly")


def test_no_child_is_forked_before_the_first_beat():
    """Killed before it, it would be missed by nobody, and its claims would wait for their time."""
    supervisor = Supervisor(Options(served=all_served()), Signals(WakeupPipe()))
    assert supervisor._fill() > 0
    assert supervisor.children.spawned == 0
    [contact] = supervisor.agents
    contact.last = beats_of_nobody().beat({})
    assert supervisor.agents.has_begun("default")
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
    assert writing.wait(60)
    assert beats.beat({})
    writer.join()
    assert beats.backoff.failures == 0


def test_a_request_to_stop_comes_with_the_next_beat_that_is_written():
    beats = beats_of_nobody()
    assert beats.beat({})
    Worker.objects.update(stop_requested_at=DbNow())
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


# --- who may call others dead ---------------------------------------------------------------------


def test_a_worker_calls_others_dead_once_it_has_beaten_for_as_long_itself(clock):
    beats = beats_of_nobody()
    beat_for(TIMEOUT - INTERVAL, beats, clock)
    assert not beats.may_judge()
    beat_for(INTERVAL, beats, clock)
    assert beats.may_judge()


def test_nobody_is_called_dead_during_an_outage_of_ones_own_and_right_after_it(clock):
    """In it everybody looks dead."""
    beats = beats_of_nobody()
    beat_for(2 * TIMEOUT, beats, clock)
    clock.now += TIMEOUT / 2
    assert not beats.may_judge()
    clock.now += 1
    assert beats.beat({})
    assert not beats.may_judge()
    beat_for(TIMEOUT, beats, clock)
    assert beats.may_judge()


def test_a_beat_that_failed_is_a_gap_however_soon_the_next_one_is_written(clock):
    beats = beats_of_nobody()
    beat_for(2 * TIMEOUT, beats, clock)
    clock.now += INTERVAL
    with connection.execute_wrapper(away):
        assert not beats.beat({})
    beat_for(TIMEOUT, beats, clock)
    assert not beats.may_judge()
    beat_for(INTERVAL, beats, clock)
    assert beats.may_judge()


def test_what_was_claimed_before_a_long_gap_may_be_others_by_now(clock):
    """The children ask for such claims once more, since the epoch has changed."""
    beats = beats_of_nobody()
    assert beats.beat({})
    before = beats.last.epoch
    clock.now += TIMEOUT / 2
    assert beats.beat({})
    assert beats.last.epoch == before
    clock.now += TIMEOUT / 2 + 1
    assert beats.beat({})
    assert beats.last.epoch != before


def test_a_worker_that_was_taken_for_dead_began_when_it_did():
    beats = beats_of_nobody()
    assert beats.beat({})
    rows = Worker.objects.filter(pk=beats.uuid)
    rows.update(started_at=DbNow(plus=-3600), stopped_at=DbNow())
    before = rows.get().started_at
    assert beats.beat({})
    assert (rows.get().started_at, rows.get().stopped_at) == (before, None)


def away_at_an_insert(execute, sql, *given):
    return away(execute, sql, *given) if sql.startswith("INSERT") else execute(sql, *given)


def test_nothing_of_its_row_is_lost_where_the_next_one_cannot_be_written_at_once():
    beats = beats_of_nobody()
    assert beats.beat({})
    rows = Worker.objects.filter(pk=beats.uuid)
    rows.update(started_at=DbNow(plus=-3600), stopped_at=DbNow(), stop_requested_at=DbNow())
    before = rows.get().started_at
    with connection.execute_wrapper(away_at_an_insert):
        assert not beats.beat({})
    assert beats.beat({})
    assert beats.beat({}).stop_requested
    assert rows.get().started_at == before


@pytest.mark.parametrize(
    ("asked", "heard"),
    [
        ({"drain_requested_at": DbNow()}, "drain_requested"),
        ({"stop_requested_at": DbNow()}, "stop_requested"),
        ({"stop_requested_at": DbNow(), "restart_requested": True}, "restart_requested"),
    ],
)
@pytest.mark.parametrize("was_heard", [True, False])
def test_what_a_worker_was_asked_for_holds_after_it_was_taken_for_dead(asked, heard, was_heard):
    beats = beats_of_nobody()
    assert beats.beat({})
    rows = Worker.objects.filter(pk=beats.uuid)
    rows.update(**asked)
    assert not was_heard or getattr(beats.beat({}), heard)
    rows.update(stopped_at=DbNow())
    assert beats.beat({})
    assert getattr(beats.beat({}), heard)
    assert all(rows.values_list(*asked).get())


def test_a_drained_worker_whose_row_is_gone_stays_drained_until_it_is_resumed():
    """It was frozen for longer than rows of the dead are kept."""
    beats = beats_of_nobody()
    assert beats.beat({})
    Worker.objects.update(drain_requested_at=DbNow())
    assert beats.beat({}).drain_requested
    Worker.objects.all().delete()
    assert beats.beat({}).drain_requested
    assert beats.beat({}).drain_requested
    Worker.objects.update(drain_requested_at=None)
    assert not beats.beat({}).drain_requested
