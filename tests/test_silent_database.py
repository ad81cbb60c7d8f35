"""A database that does not answer: nobody waits for it who has something else to do."""

import socket

import pytest
from django.db import connection, connections
from django.db.utils import OperationalError

from django_dbqueue.worker.session import Session, connect_impatiently
from tests.kit.jobs import start

needs_a_server = pytest.mark.skipif(connection.vendor == "sqlite", reason="it is a file")


@pytest.fixture
def mute(monkeypatch):
    """An alias whose server takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = {"HOST": "127.0.0.1", "PORT": server.getsockname()[1], "OPTIONS": {}}
        monkeypatch.setitem(connections.settings, "mute", connection.settings_dict | place)
        yield connections["mute"].alias
        del connections["mute"]


@needs_a_server
@pytest.mark.usefixtures("db_rows")
def test_a_connect_of_ours_to_a_server_that_does_not_answer_fails_soon(mute):
    with pytest.raises(OperationalError):
        start(Session({mute}).prepare).result(seconds=10)


@needs_a_server
def test_a_project_that_says_how_long_a_connect_may_take_is_heeded(mute):
    connections.settings[mute]["OPTIONS"] = {"connect_timeout": 7}
    connect_impatiently(connections[mute])
    assert connections[mute].settings_dict["OPTIONS"]["connect_timeout"] == 7


@needs_a_server
def test_other_threads_of_the_project_connect_as_before(mute):
    connect_impatiently(connections[mute])
    assert connections.settings[mute]["OPTIONS"] == {}
