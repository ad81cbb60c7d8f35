"""What happens to jobs is told to subscribers, and what these write later is written."""

import os
import socket
from contextlib import suppress

import pytest
from django.db import OperationalError, connection, connections

from django_dbqueue import events
from django_dbqueue.dialects import dialect_of
from django_dbqueue.testing import InlineWorker
from django_dbqueue.worker import background
from tests.queueapp.models import Fleeting, Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def heard(monkeypatch):
    """(event, what was told of it) of everything."""
    told = []
    for name in ("claimed", "started", "completed", "failed", "expired", "gone", "reaped"):
        event = getattr(events, name)
        monkeypatch.setattr(event, "receivers", list(event.receivers))
        event.subscribe(lambda *given, name=name: told.append((name, given)))
    return told


def test_subscribers_hear_of_a_job_from_its_claim_to_its_end(heard):
    job = Note.objects.create(text="x")
    with InlineWorker("queueapp.note") as worker:
        worker.run()
    assert [name for name, _ in heard] == ["claimed", "started", "completed"]
    _, found = heard[0][1]
    assert {queue: [one.pk for one in jobs] for queue, jobs in found.items()} == {
        "default": [job.pk]
    }
    [(done, seconds)] = heard[2][1][1]
    assert done.pk == job.pk
    assert seconds >= 0


def test_those_that_complete_together_are_told_of_together(heard):
    Note.objects.enqueue_many([{"text": "x"}] * 5)
    with InlineWorker("queueapp.note", "--batch-size", "5") as worker:
        worker.run()
    assert [len(given[1]) for name, given in heard if name == "completed"] == [5]


def test_a_failure_is_told_with_what_becomes_of_the_job(heard):
    Note.objects.create(action="fail")
    with InlineWorker("queueapp.note") as worker:
        worker.run()
    _, _, error, _, decision, _ = next(given for name, given in heard if name == "failed")
    assert "does not work" in str(error)
    assert not decision.is_buried


def test_who_subscribes_twice_is_told_once(heard):
    for _ in range(2):
        events.claimed.subscribe(heard.append)
    assert events.claimed.receivers.count(heard.append) == 1
    events.claimed.receivers.remove(heard.append)


@pytest.mark.skipif(connection.vendor == "sqlite", reason="it is a file")
def test_a_connection_that_a_subscriber_lost_is_opened_again(heard):
    """A driver may have closed its socket, and call the connection open."""
    lost = []

    def lose(*_):
        if not lost:
            lost.append(connection.connection)
            descriptor = os.dup(dialect_of(connections["default"]).socket_descriptor)
            with socket.socket(fileno=descriptor) as copy, suppress(OperationalError):
                copy.shutdown(socket.SHUT_RDWR)
                Note.objects.count()

    events.claimed.subscribe(lose)
    Note.objects.bulk_create(Note(text="x") for _ in range(20))
    with InlineWorker("queueapp.note", "--batch-size", "5") as worker:
        worker.run()
    assert connection.connection is not lost[0]
    assert not Note.objects.exclude(status=2).exists()


class Writer:
    """A subscriber's, which fails the first time."""

    def __init__(self):
        self.tries = 0

    def due_in(self):
        return 0.0 if self.tries < 2 else 60.0

    def write(self):
        self.tries += 1
        if self.tries == 1:
            raise RuntimeError("not now")


def test_what_a_subscriber_fails_to_write_stops_nobody_and_is_tried_again(monkeypatch):
    writer = Writer()
    monkeypatch.setattr(background, "WRITERS", [writer])
    monkeypatch.setattr("django_dbqueue.worker.finisher.WRITERS", [writer])
    Fleeting.objects.create()
    with InlineWorker("queueapp.fleeting") as worker:
        assert worker.run() == 1
    assert writer.tries >= 2
    assert not Fleeting.objects.exists()
