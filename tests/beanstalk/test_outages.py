"""A server whose database fails: what it does meanwhile, and what it leaves alone."""

import time
from functools import partial

import pytest
from django.db import connections
from django.db.models import QuerySet
from django.db.utils import OperationalError

from django_dbqueue.beanstalk import broker, commands, one_by_one, replies, rows
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.dialects import ErrorKind, dialect_of
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import by_key
from django_dbqueue.worker.session import ReconnectBackoff
from tests.kit.beanstalk_desk import Desk
from tests.kit.jobs import start
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def desk():
    return Desk()


def fail(*_):
    raise OperationalError("the database is away")


def test_the_pause_after_a_turn_that_failed_is_kept_whatever_clients_say(desk, monkeypatch):
    client, failures = desk.client(), []

    def failed(self, error):
        failures.append(error)
        self.failures += 1
        return 3600.0

    monkeypatch.setattr(ReconnectBackoff, "failed", failed)
    monkeypatch.setattr(desk.broker, "_serve", fail)
    desk.broker.submit(client, commands.Put(0, 0, 60, b"x"))
    running = start(desk.broker.run)
    try:
        wait_until(lambda: failures)
        for _ in range(20):
            desk.broker.submit(client, commands.Put(0, 0, 60, b"x"))
            time.sleep(0.01)
        assert len(failures) == 1
    finally:
        desk.broker.stop()
        running.result()


def test_a_server_lives_on_whose_database_fails_while_clients_wait(desk, monkeypatch):
    client, other, really_serve = desk.client(), desk.client(), desk.broker._serve
    failures = []

    def serve(wanted):
        if desk.broker.state.waiters and not failures:
            failures.append(wanted)
            fail()
        really_serve(wanted)

    monkeypatch.setattr(desk.broker, "_serve", serve)
    running = start(desk.broker.run)
    try:
        desk.broker.submit(client, commands.Reserve())
        wait_until(lambda: desk.broker.state.waiters)
        desk.broker.submit(other, commands.Put(0, 0, 60, b"x"))
        wait_until(lambda: failures and desk.answers[client])
        assert desk.answers[client][-1].startswith(b"RESERVED")
    finally:
        desk.broker.stop()
        running.result()


class FullDisk:
    """What is written here fails as on a full disk, until there is room."""

    def __init__(self, monkeypatch, place, name):
        self.tries, self.is_full, self._really = 0, True, getattr(place, name)
        monkeypatch.setattr(place, name, self._write)

    def _write(self, *given):
        self.tries += 1
        if self.is_full:
            raise OperationalError("the disk is full")
        return self._really(*given)


@pytest.fixture
def full_disk(monkeypatch):
    monkeypatch.setattr(
        dialect_of(connections["default"]), "kind_of_code", lambda error: ErrorKind.FULL
    )
    return partial(FullDisk, monkeypatch)


@pytest.fixture
def for_an_hour(monkeypatch):
    """Nothing that fails is tried again, and nothing else is due, however slow the machine is."""
    monkeypatch.setattr(broker, "REFRESH_SECONDS", 3600.0)
    monkeypatch.setattr(ReconnectBackoff, "failed", lambda self, error: 3600.0)


def asks(desk, client):
    """For what a full disk does not keep from anybody."""
    assert desk.ask(client, commands.ReserveWithTimeout(0)) == replies.TIMED_OUT
    assert desk.ask(client, commands.Use("a")) == b"USING a\r\n"
    assert desk.ask(client, commands.PeekReady()).startswith(b"FOUND")
    return desk.broker.turn() > 0


def test_where_no_job_can_be_reserved_the_rest_is_answered(desk, full_disk, for_an_hour):
    waiting, client = desk.client("a"), desk.client("a")
    desk.put(client)
    disk = full_disk(broker, "reserve")
    assert desk.ask(waiting, commands.Reserve()) is None
    before = disk.tries
    for _ in range(10):
        assert asks(desk, client)
    assert disk.tries == before


def test_who_waits_gets_its_job_once_there_is_room(desk, full_disk, caplog):
    client = desk.client()
    key = desk.put(client)
    disk = full_disk(broker, "reserve")
    assert desk.ask(client, commands.Reserve()) is None
    disk.is_full = False
    assert desk.hears(client, b"RESERVED %d " % key)
    assert "reserving works again" in caplog.text


def test_where_no_job_can_be_given_back_the_rest_is_answered(desk, full_disk, for_an_hour):
    gone, client = desk.client("b"), desk.client("a")
    desk.put(gone)
    assert desk.reserve(gone)
    desk.put(client)
    disk = full_disk(by_key, "end_claims")
    desk.ask(client, commands.PauseTube("a", 60))
    desk.broker.submit(gone, News.GONE)
    for _ in range(10):
        assert asks(desk, client)
    assert disk.tries == 1


def test_what_a_client_held_that_is_gone_comes_back_once_there_is_room(desk, full_disk):
    gone = desk.client()
    key = desk.put(gone)
    assert desk.reserve(gone) == key
    disk = full_disk(by_key, "end_claims")
    desk.broker.submit(gone, News.GONE)
    desk.turn()
    disk.is_full = False
    client = desk.client()
    assert desk.ask(client, commands.Reserve()) is None
    assert desk.hears(client, b"RESERVED %d " % key)


def test_where_no_delayed_job_can_be_made_ready_the_rest_is_answered(desk, full_disk, for_an_hour):
    client = desk.client("a")
    desk.put(client)
    desk.ask(client, commands.PauseTube("a", 60))
    disk = full_disk(broker, "promote")
    TubeJob.objects.enqueue(queue="b", body=b"x", delay=60)
    QuerySet(TubeJob).filter(queue="b").update(retry_at=DbNow(plus=-1))
    desk.broker._refresh_at = 0.0
    for _ in range(10):
        assert asks(desk, client)
    assert disk.tries == 1


@pytest.fixture
def lose_counts(monkeypatch):
    """Who counts the jobs loses the connection, as by the watchdog; how often that was."""
    calls = []

    def counts(*_):
        calls.append(1)
        raise OperationalError("nobody answers")

    monkeypatch.setattr(rows, "counts", counts)
    dialect = dialect_of(connections["default"])
    monkeypatch.setattr(dialect, "kind_of_code", lambda error: ErrorKind.LOST)
    return calls


def test_a_question_that_loses_the_connection_twice_is_an_error_of_those_who_ask_it(
    desk, lose_counts, monkeypatch
):
    monkeypatch.setattr(one_by_one, "REST", 0)
    clients = [desk.client() for _ in range(3)]
    desk.turn()
    for client in clients:
        desk.broker.submit(client, commands.Stats())
    for _ in range(2):
        with pytest.raises(OperationalError):
            desk.broker.turn()
    desk.turn()
    assert [desk.answers[client] for client in clients] == [[replies.INTERNAL_ERROR]] * 3
    assert len(lose_counts) == 2
    assert desk.put(clients[0])


def test_a_question_that_loses_the_connection_leaves_others_their_time(
    desk, lose_counts, monkeypatch
):
    monkeypatch.setattr(one_by_one, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(one_by_one, "REST", 1e9)
    monkeypatch.setattr(one_by_one, "REST_AFTER_LOSS", 3600.0)
    client, other = desk.client(), desk.client()
    desk.broker.submit(client, commands.Stats())
    with pytest.raises(OperationalError):
        desk.broker.turn()
    for _ in range(5):
        desk.broker.submit(other, commands.Put(0, 0, 60, b"x"))
        desk.broker.turn()
    assert len(desk.answers[other]) == 5
    assert len(lose_counts) == 1
