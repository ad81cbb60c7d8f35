"""Queued mail from the request to the mail server, through real workers."""

import signal
from collections import Counter

import django
import pytest
from aiosmtpd.controller import Controller
from django.core import mail
from django.db import transaction

from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.models import Email
from django_dbqueue.states import Status
from tests.conftest import wait_until
from tests.processes import worker
from tests.smtp import Server, free_port

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def mail_server():
    server = Server()
    controller = Controller(server, hostname="127.0.0.1", port=free_port())
    controller.start()
    yield server, {"EMAIL_HOST": "127.0.0.1", "EMAIL_PORT": str(controller.port)}
    controller.stop()


# From Django 6.1 on the project names the mailer that delivers.
USING = {"using": "smtp"} if django.VERSION >= (6, 1) else {}


def enqueue(count):
    messages = [
        mail.EmailMessage(f"Order {n}", "Thank you.", "shop@x.example", [f"customer{n}@x.example"])
        for n in range(count)
    ]
    with transaction.atomic():
        assert EmailBackend(alias="default", **USING).send_messages(messages) == count
    assert Email.objects.ready().count() == count


def ids(server):
    return Counter(message["Message-ID"] for message in server.received)


def test_two_hosts_deliver_300_messages_once_each(database_url, mail_server):
    server, environment = mail_server
    enqueue(300)
    with (
        worker(database_url, "--stop-when-empty", "--threads", "2", **environment) as one,
        worker(database_url, "--stop-when-empty", "--threads", "2", **environment) as two,
    ):
        assert (one.end(60), two.end(60)) == (0, 0)
    assert len(server.received) == len(ids(server)) == 300
    assert Email.objects.done().count() == 300


def test_a_killed_host_costs_at_most_one_duplicate_per_thread(database_url, mail_server):
    server, environment = mail_server
    enqueue(300)
    with worker(database_url, **environment) as victim:
        wait_until(lambda: len(server.received) > 50)
        victim.send_group(signal.SIGKILL)
        with worker(database_url, **environment):
            wait_until(lambda: Email.objects.done().count() == 300, seconds=40)
    assert len(ids(server)) == 300
    assert len(server.received) <= 301


def test_deferred_mail_is_sent_later_and_refused_mail_fails(database_url, mail_server):
    server, environment = mail_server
    for address in ["defer@x.example", "refuse@x.example", "fine@x.example"]:
        message = mail.EmailMessage("Hi", "text", "shop@x.example", [address])
        Email.from_message(message, **USING).save()
    with worker(database_url, **environment, DBQUEUE_MAIL_RETRY_FIRST="0.5"):
        wait_until(lambda: Email.objects.filter(recipients="defer@x.example", attempts__gt=1))
        wait_until(lambda: Email.objects.filter(recipients="refuse@x.example").buried())
        wait_until(lambda: Email.objects.filter(recipients="fine@x.example").done())
    [deferred] = Email.objects.filter(recipients="defer@x.example")
    assert deferred.status in {Status.DELAYED, Status.READY, Status.CLAIMED}
    assert "451" in deferred.last_error
    assert [m["To"] for m in server.received] == ["fine@x.example"]
