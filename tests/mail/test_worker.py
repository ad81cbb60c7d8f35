"""Queued mail from the request to the mail server, through workers."""

import signal
from base64 import b64encode
from collections import Counter

import pytest
from django.db import transaction

from django_dbqueue.mail.models import Email
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker, virtual_clock
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh
from tests.kit.mail import deliver_to, letter, queue_all, queued
from tests.kit.processes import worker
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")

MAIL = "dbqueue_mail.email"


def enqueue(count):
    with transaction.atomic():
        assert queue_all([letter(f"customer{n}") for n in range(count)]) == count
    assert Email.objects.ready().count() == count


def ids(server):
    return Counter(one.message["Message-ID"] for one in server.received)


def test_two_hosts_deliver_300_messages_once_each(database_url, server):
    enqueue(300)
    with (
        worker(database_url, "--stop-when-empty", "--threads", "2", **server.environment) as one,
        worker(database_url, "--stop-when-empty", "--threads", "2", **server.environment) as two,
    ):
        assert (one.end(60), two.end(60)) == (0, 0)
    assert len(server.received) == len(ids(server)) == 300
    assert Email.objects.done().count() == 300


def test_a_killed_host_costs_at_most_one_duplicate_per_thread(database_url, server):
    enqueue(300)
    soon = {"DBQUEUE_BEAT_INTERVAL": "0.3", "DBQUEUE_WORKER_TIMEOUT": "1.5"}
    with worker(database_url, **soon, **server.environment) as victim:
        wait_until(lambda: len(server.received) > 50)
        victim.send_group(signal.SIGKILL)
        with worker(database_url, **soon, **server.environment):
            wait_until(lambda: Email.objects.done().count() == 300, seconds=40)
    assert len(ids(server)) == 300
    assert len(server.received) <= 301


def test_deferred_mail_is_sent_later_and_refused_mail_fails(server):
    late, refused, fine = queued("late"), queued("refuse"), queued("fine")
    with virtual_clock() as clock, InlineWorker(MAIL, clock=clock) as worker:
        worker.run()
        states = [fresh(email).status for email in (late, refused, fine)]
        assert states == [Status.DELAYED, Status.BURIED, Status.DONE]
        assert "451" in fresh(late).last_error
        assert [one.recipients for one in server.received] == [["fine@x.example"]]
        server.to_messages.clear()
        worker.drain()
    assert (fresh(late).status, fresh(late).attempts) == (Status.DONE, 2)
    assert server.got("late") == 1


def test_no_poisoned_message_stops_one_of_the_99_others(server, settings):
    deliver_to(settings, server.port, "tests.kit.odd_mailer.Odd")
    poisoned = {
        "bad address": queued("anna <<"),
        "exception in the backend": queued("berta", subject="odd"),
        "broken attachment": queued("carla", attachments=[("a.bin", b"12345678", "x/y")]),
        "unreadable": queued("dora"),
        "refused by the server": queued("late"),
    }
    broken = poisoned["broken attachment"]
    cut = broken.message.replace(b64encode(b"12345678").decode(), "MTIzN")
    assert cut != broken.message
    Email.objects.filter(pk=broken.pk).update(message=cut)
    Email.objects.filter(pk=poisoned["unreadable"].pk).update(message='{"version": 1}')
    queue_all([letter(f"customer{n}") for n in range(99)])
    work_off(MAIL)
    assert Email.objects.done().count() == len(server.received) == 99
    assert {name: fresh(one).status for name, one in poisoned.items()} == {
        "bad address": Status.BURIED,
        "exception in the backend": Status.DELAYED,
        "broken attachment": Status.BURIED,
        "unreadable": Status.BURIED,
        "refused by the server": Status.DELAYED,
    }
