"""Nobody leaves a mail server without a QUIT, and no server holds up whoever says it."""

import os
import signal
import threading
import time

import pytest
from django.db import connections as databases

from django_dbqueue.mail.models import Email
from django_dbqueue.mail.sending import connections
from django_dbqueue.mail.sending.send import send
from django_dbqueue.models import Worker
from django_dbqueue.signals import worker_stopped
from tests.kit import smtp_server
from tests.kit.mail import email_of, letter, queue_all
from tests.kit.processes import worker
from tests.kit.smtp_server import Dialogue
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.any_database]


class Silent(Dialogue):
    """Does not answer to a QUIT."""

    def do_QUIT(self):
        self.server.goodbyes += 1
        self.server.stall()
        return False


def send_in_threads(count):
    """None has ended before all have opened a connection of their own."""
    together = threading.Barrier(count, timeout=20)

    def work():
        send(email_of(letter()))
        databases.close_all()
        together.wait()

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_worker_that_stops_says_it_on_each_connection(database_url, server):
    server.before_answer = lambda _: time.sleep(0.05)
    queue_all([letter(f"anna{n}") for n in range(30)])
    with worker(database_url, "--threads", "3", **server.environment) as process:
        wait_until(lambda: Email.objects.done().count() == 30)
        assert server.goodbyes == 0
        process.send(signal.SIGTERM)
        assert process.end() == 0
    wait_until(lambda: server.goodbyes == 3)
    assert server.connections == 3


def test_connections_of_threads_that_have_ended_are_closed_by_the_signal(server):
    send_in_threads(3)
    assert (server.connections, server.goodbyes) == (3, 0)
    worker_stopped.send_robust(sender=Worker)
    wait_until(lambda: server.goodbyes == 3)


def test_they_are_closed_when_another_thread_opens_one_as_well(server):
    send_in_threads(2)
    send_in_threads(1)
    wait_until(lambda: server.goodbyes == 2)
    assert server.connections == 3


def test_a_server_that_does_not_answer_holds_nobody_up(server, monkeypatch, settings):
    monkeypatch.setattr(smtp_server, "Dialogue", Silent)
    monkeypatch.setattr(connections, "GOODBYE_SECONDS", 0.3)
    settings.DBQUEUE["MAIL_TIMEOUT"] = 60
    send_in_threads(4)
    closer = threading.Thread(target=connections.close_idle_connections)
    closer.start()
    wait_until(lambda: server.goodbyes == 4)
    wait_until(lambda: not closer.is_alive())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_says_it_on_none_of_its_parents(server):
    send(email_of(letter()))
    child = os.fork()
    if child == 0:
        try:
            connections.close_idle_connections()
            os._exit(0)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    send(email_of(letter()))
    assert (server.connections, server.goodbyes, len(server.received)) == (1, 0, 2)
