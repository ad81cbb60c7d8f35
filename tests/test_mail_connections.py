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
from tests.mailing import email_to
from tests.smtp import Server

pytestmark = pytest.mark.usefixtures("db_rows", "own_connections")


def test_one_connection_carries_many_messages(server: Server) -> None:
    for number in range(20):
        send(email_to(f"anna{number}@x.example"))
    assert len(server.received) == 20
    assert server.connections == 1


@pytest.mark.parametrize("bad", ["defer@x.example", "refuse@x.example"])
def test_after_an_error_a_new_connection_is_opened(server: Server, bad: str) -> None:
    send(email_to("anna@x.example"))
    with pytest.raises((smtplib.SMTPException, Bury)):
        send(email_to(bad))
    send(email_to("anna@x.example"))
    assert server.connections == 2


def test_a_connection_is_closed_after_its_messages(server: Server, settings: Any) -> None:
    settings.DBQUEUE = {**settings.DBQUEUE, "MAIL_CONNECTION_MAX_MESSAGES": 4}
    for _ in range(10):
        send(email_to("anna@x.example"))
    assert server.connections == 3


def test_a_connection_is_closed_when_it_is_old(server: Server, settings: Any) -> None:
    settings.DBQUEUE = {**settings.DBQUEUE, "MAIL_CONNECTION_MAX_AGE": 0.05}
    send(email_to("anna@x.example"))
    time.sleep(0.06)
    send(email_to("anna@x.example"))
    assert server.connections == 2


def test_a_server_that_hung_up_on_an_idle_connection_costs_no_attempt(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(email_to("anna@x.example"))
    server.hang_up()
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.05)
    send(email_to("anna@x.example"))
    assert len(server.received) == 2


def test_each_thread_has_its_own_connection(server: Server) -> None:
    def work() -> None:
        for _ in range(5):
            send(email_to("anna@x.example"))
        connections.close_connections()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.received) == 15
    assert server.connections == 3


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_leaves_its_parents_connection_alone(server: Server) -> None:
    send(email_to("anna@x.example"))
    child = os.fork()
    if child == 0:
        try:
            send(email_to("child@x.example"))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    send(email_to("anna@x.example"))
    assert len(server.received) == 3
    assert server.connections == 2
