"""One connection per thread and mailer: how long it is used, and what ends it."""

import os
import smtplib
import threading
import time
from typing import Any

import pytest

from django_dbqueue.exceptions import Bury
from django_dbqueue.mail.sending import connections
from django_dbqueue.mail.sending.send import send
from tests.kit.mail import email_of, letter, setting
from tests.kit.smtp_server import ScriptedServer

pytestmark = pytest.mark.usefixtures("db_rows", "own_connections")


def test_one_connection_carries_many_messages(server: ScriptedServer) -> None:
    for number in range(20):
        send(email_of(letter(f"anna{number}")))
    assert len(server.received) == 20
    assert server.connections == 1


@pytest.mark.parametrize("bad", ["late", "refuse"])
def test_after_an_error_a_new_connection_is_opened(server: ScriptedServer, bad: str) -> None:
    send(email_of(letter()))
    with pytest.raises((smtplib.SMTPException, Bury)):
        send(email_of(letter(bad)))
    send(email_of(letter()))
    assert server.connections == 2


def test_a_connection_is_closed_after_its_messages(server: ScriptedServer, settings: Any) -> None:
    setting(settings, MAIL_CONNECTION_MAX_MESSAGES=4)
    for _ in range(10):
        send(email_of(letter()))
    assert server.connections == 3


def test_a_connection_is_closed_when_it_is_old(server: ScriptedServer, settings: Any) -> None:
    setting(settings, MAIL_CONNECTION_MAX_AGE=0.05)
    send(email_of(letter()))
    time.sleep(0.06)
    send(email_of(letter()))
    assert server.connections == 2


def test_each_message_may_have_a_connection_and_no_more_than_one(
    server: ScriptedServer, settings: Any
) -> None:
    setting(settings, MAIL_CONNECTION_MAX_AGE=0)
    send(email_of(letter()))
    assert server.connections == 1
    send(email_of(letter()))
    assert server.connections == 2


def test_a_server_that_hung_up_on_an_idle_connection_costs_no_attempt(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(email_of(letter()))
    server.hang_up()
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.0)
    send(email_of(letter()))
    assert len(server.received) == 2


def test_each_thread_has_its_own_connection(server: ScriptedServer) -> None:
    def work() -> None:
        for _ in range(5):
            send(email_of(letter()))
        connections.close_connections()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.received) == 15
    assert server.connections == 3


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_leaves_its_parents_connection_alone(server: ScriptedServer) -> None:
    send(email_of(letter()))
    child = os.fork()
    if child == 0:
        try:
            send(email_of(letter("child")))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    send(email_of(letter()))
    assert len(server.received) == 3
    assert server.connections == 2
