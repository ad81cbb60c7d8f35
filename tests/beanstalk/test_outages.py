"""A server whose database fails: what it does meanwhile, and what it leaves alone."""

import time

import pytest
from django.db.utils import OperationalError

from django_dbqueue.beanstalk import commands
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
