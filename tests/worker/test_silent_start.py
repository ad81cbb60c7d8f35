"""A worker that starts as its database falls silent: it starts later, or stops if it is told to."""

import os
import signal
import threading

import pytest
from django.db import connection, connections

from django_dbqueue.torture import proxy
from django_dbqueue.worker import startup
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import Served
from django_dbqueue.worker.startup import Startup
from tests.kit.jobs import start
from tests.kit.processes import worker
from tests.kit.silent_server import DeafLater, proxied
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
needs_a_server = pytest.mark.skipif(connection.vendor == "sqlite", reason="it is a file")


@pytest.fixture
def falls_silent(monkeypatch):
    """A proxy whose connections hear so many requests, and nothing after these."""
    monkeypatch.setattr(proxy, "Link", DeafLater)
    with proxied() as silent:

        def after(requests):
            monkeypatch.setattr(DeafLater, "hears", requests)
            return silent

        yield after


def is_silent(silent):
    return any(link.is_deaf for link in silent.proxy.links)


@needs_a_server
@pytest.mark.parametrize("requests", [3, 5, 7])
def test_a_worker_that_starts_at_a_silent_database_can_be_told_to_stop(falls_silent, requests):
    silent = falls_silent(requests)
    with worker(silent.url, "queueapp.Note") as process:
        wait_until(lambda: is_silent(silent))
        process.send(signal.SIGTERM)
        assert process.end(20) == 0
    assert "starts" not in process.stderr


@needs_a_server
@pytest.mark.parametrize("requests", [3, 5, 9])
def test_it_asks_again_and_starts(falls_silent, requests, monkeypatch, caplog):
    silent = falls_silent(requests)
    monkeypatch.setattr(startup, "SILENCE_SECONDS_MAX", 1.0)
    place = {"HOST": "127.0.0.1", "PORT": silent.proxy.port, "OPTIONS": {}}
    monkeypatch.setitem(connections.settings, "silent", connection.settings_dict | place)

    def prepare(_):
        for _ in range(9):
            connections["silent"].cursor().execute("SELECT 1")

    begin = Startup(Options(served=(Served(Note, "silent"),)), prepare)
    begun = start(lambda: (begin.run_once(), connections["silent"].close()))
    wait_until(lambda: is_silent(silent))
    falls_silent(1000)
    assert begun.result() == (0, None)
    assert "silent does not answer: reconnecting" in caplog.text
    assert "silence" not in {thread.name for thread in threading.enumerate()}


def test_it_waits_for_no_process_that_the_project_has_forked_meanwhile():
    """As a manager of multiprocessing does in a module of the project."""
    forked = []

    def prepare(_):
        forked.append(os.fork())
        if not forked[-1]:
            signal.pause()

    begin = Startup(Options(served=(Served(Note, "default"),)), prepare)
    try:
        assert start(begin.run_once).result(seconds=20) == 0
    finally:
        os.kill(forked[0], signal.SIGKILL)
        os.waitpid(forked[0], 0)
