"""Delivery over real SMTP, to a server that takes, defers, refuses, hangs up and stalls."""

import os
import smtplib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import django
import pytest
from aiosmtpd.controller import Controller
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMessage
from django.core.mail.backends.locmem import EmailBackend as MemoryBackend

from django_dbqueue.exceptions import Bury
from django_dbqueue.mail import connections
from django_dbqueue.mail.backoff import MailBackoff
from django_dbqueue.mail.delivery import send
from django_dbqueue.mail.models import Email
from django_dbqueue.mail.outcomes import NotTaken, classify, explain
from django_dbqueue.states import Status
from tests.conftest import fresh
from tests.smtp import Server, deliver_to, free_port

HAS_MAILERS = django.VERSION >= (6, 1)

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture(autouse=True)
def own_connections() -> Iterator[None]:
    connections.close_connections()
    yield
    connections.close_connections()


@pytest.fixture
def server(settings: Any) -> Iterator[Server]:
    handler = Server()
    controller = Controller(handler, hostname="127.0.0.1", port=free_port())
    controller.start()
    deliver_to(settings, controller.port)
    yield handler
    controller.stop()


def email_to(*recipients: str, **fields: Any) -> Email:
    fields = {"subject": "Hello", "body": "text", "from_email": "shop@x.example", **fields}
    return Email.from_message(EmailMessage(to=list(recipients), **fields))


# --- outcomes -----------------------------------------------------------------------------------


def test_a_message_is_delivered_with_the_message_id_that_it_was_queued_with(
    server: Server,
) -> None:
    email = email_to("anna@x.example", body="Grüße")
    send(email)
    [received] = server.received
    assert received["Message-ID"] == email.message_id
    assert received["To"] == "anna@x.example"
    assert received.get_payload(decode=True).decode().strip() == "Grüße"


def test_every_attempt_carries_the_same_message_id(server: Server) -> None:
    email = email_to("anna@x.example")
    send(email)
    send(email)
    assert len({message["Message-ID"] for message in server.received}) == 1


def test_a_message_id_of_the_sender_is_kept(server: Server) -> None:
    email = email_to("anna@x.example", headers={"message-id": "<mine@x.example>"})
    assert email.message_id == "<mine@x.example>"
    send(email)
    assert server.received[0].get_all("Message-ID") == ["<mine@x.example>"]


def test_a_deferred_message_raises_what_the_server_said(server: Server) -> None:
    with pytest.raises(smtplib.SMTPDataError, match=r"451.*greylisted"):
        send(email_to("defer@x.example"))


def test_a_refused_message_is_buried_with_what_the_server_said(server: Server) -> None:
    with pytest.raises(Bury, match=r"refuse@x\.example: 550 no such user"):
        send(email_to("refuse@x.example"))


def test_a_connection_that_drops_in_the_message_is_retried_and_the_next_message_is_sent(
    server: Server,
) -> None:
    with pytest.raises(smtplib.SMTPServerDisconnected):
        send(email_to("drop@x.example"))
    send(email_to("anna@x.example"))
    assert len(server.received) == 1


def test_a_server_that_stalls_is_left_after_the_timeout(server: Server, settings: Any) -> None:
    settings.DBQUEUE = {**settings.DBQUEUE, "MAIL_TIMEOUT": 0.3}
    begun = time.monotonic()
    with pytest.raises(OSError, match=r"(?i)timed out|unexpectedly closed"):
        send(email_to("stall@x.example"))
    assert time.monotonic() - begun < 5


def test_without_a_server_the_refused_connection_is_retried(settings: Any) -> None:
    deliver_to(settings, free_port())
    with pytest.raises(ConnectionRefusedError):
        send(email_to("anna@x.example"))


def test_a_bad_address_is_buried_and_the_next_message_is_sent(server: Server) -> None:
    with pytest.raises(Bury, match=r"(?i)invalid address|parsed"):
        send(email_to("anna <<@x.example"))
    send(email_to("anna@x.example"))
    assert len(server.received) == 1


@pytest.mark.parametrize("stored", ["", "{}", '{"version": 9}', '{"version": 1}'])
def test_a_broken_stored_message_is_buried(server: Server, stored: str) -> None:
    email = email_to("anna@x.example")
    email.message = stored
    with pytest.raises(Bury):
        send(email)


class NothingTaken(MemoryBackend):
    def send_messages(self, messages: Any) -> int:
        return 0


class Broken(MemoryBackend):
    def send_messages(self, messages: Any) -> int:
        raise KeyError("template")


def test_a_backend_that_reports_nothing_sent_is_asked_again(settings: Any) -> None:
    deliver_to(settings, 0, f"{__name__}.NothingTaken")
    with pytest.raises(NotTaken):
        send(email_to("anna@x.example"))


def test_an_unknown_error_of_a_backend_buries_the_message(settings: Any) -> None:
    deliver_to(settings, 0, f"{__name__}.Broken")
    with pytest.raises(Bury, match="KeyError: 'template'"):
        send(email_to("anna@x.example"))


def test_any_backend_delivers(settings: Any, mailoutbox: list[EmailMessage]) -> None:
    deliver_to(settings, 0, "django.core.mail.backends.locmem.EmailBackend")
    send(email_to("anna@x.example"))
    assert mailoutbox[0].to == ["anna@x.example"]


@pytest.mark.parametrize(
    "backend", ["django_dbqueue.mail.backends.EmailBackend", "no.such.Backend"]
)
def test_a_mailer_that_cannot_deliver_loses_no_message(settings: Any, backend: str) -> None:
    deliver_to(settings, 0, backend)
    with pytest.raises((ImproperlyConfigured, ImportError)):
        send(email_to("anna@x.example"))


def refused(*codes: int) -> smtplib.SMTPRecipientsRefused:
    return smtplib.SMTPRecipientsRefused({f"r{i}": (c, b"no") for i, c in enumerate(codes)})


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (smtplib.SMTPDataError(451, b"greylisted"), "retry"),
        (smtplib.SMTPDataError(421, b"too many"), "pause"),
        (smtplib.SMTPDataError(554, b"spam"), "fail"),
        (smtplib.SMTPDataError(552, b"too large"), "fail"),
        (smtplib.SMTPResponseException(-1, b"?"), "retry"),
        (smtplib.SMTPSenderRefused(450, b"wait", "a"), "retry"),
        (smtplib.SMTPSenderRefused(550, b"no", "a"), "fail"),
        (smtplib.SMTPSenderRefused(530, b"log in first", "a"), "retry"),
        (refused(550), "fail"),
        (refused(550, 553), "fail"),
        (refused(550, 451), "retry"),
        (refused(450), "retry"),
        (smtplib.SMTPAuthenticationError(535, b"no"), "pause"),
        (smtplib.SMTPNotSupportedError("STARTTLS"), "retry"),
        (smtplib.SMTPConnectError(554, b"go away"), "retry"),
        (smtplib.SMTPHeloError(550, b"who"), "retry"),
        (smtplib.SMTPServerDisconnected("gone"), "retry"),
        (ConnectionResetError(), "retry"),
        (TimeoutError(), "retry"),
        (socket.gaierror(-3, "name"), "retry"),
        (ImproperlyConfigured("mailer"), "retry"),
        (NotTaken(), "retry"),
        (ValueError("Invalid address"), "fail"),
        (UnicodeError("charset"), "fail"),
        (KeyError("x"), "fail"),
    ],
)
def test_an_error_is_temporary_or_final(error: Exception, outcome: str) -> None:
    assert classify(error) == outcome


def test_an_error_is_explained_with_codes_and_text() -> None:
    assert explain(smtplib.SMTPDataError(554, b"sp\xffam")) == "SMTPDataError: 554 sp\ufffdam"
    assert explain(refused(550, 553)) == "SMTPRecipientsRefused: r0: 550 no; r1: 553 no"
    assert explain(ValueError("bad")) == "ValueError: bad"


def test_the_first_retry_comes_after_20_minutes_and_they_grow_to_6_hours(settings: Any) -> None:
    pauses = [MailBackoff().seconds(attempt) for attempt in range(1, 8)]
    assert 1080 <= pauses[0] <= 1320
    assert 2160 <= pauses[1] <= 2640
    assert 0.9 * 6 * 3600 <= pauses[6] <= 1.1 * 6 * 3600
    settings.DBQUEUE = {"MAIL_RETRY_FIRST": 60}
    assert 54 <= MailBackoff().seconds(1) <= 66


# --- connections --------------------------------------------------------------------------------


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


# --- as jobs ------------------------------------------------------------------------------------


def run_claimed() -> None:
    """What a worker does, in one turn."""
    for job in Email.objects.claim(limit=100):
        try:
            job.run()
        except Exception as error:
            job.fail(error)
        else:
            job.complete()


def test_each_message_has_its_own_outcome(server: Server) -> None:
    names = ["anna", "defer", "refuse", "<<bad", "drop", "berta"]
    emails = Email.objects.bulk_create([email_to(f"{name}@x.example") for name in names])
    run_claimed()
    after = dict(zip(names, map(fresh, emails), strict=True))
    assert [after[name].mail_state for name in ("anna", "berta")] == ["sent", "sent"]
    assert [after[name].mail_state for name in ("refuse", "<<bad")] == ["failed", "failed"]
    assert "550 no such user" in after["refuse"].last_error
    for name in ("defer", "drop"):
        assert after[name].status == Status.DELAYED
        assert after[name].mail_state.startswith("retry at 2")
    assert after["defer"].last_error == "SMTPDataError: (451, b'greylisted')"


def test_a_failed_message_is_sent_after_a_kick(server: Server) -> None:
    email = email_to("refuse@x.example")
    email.save()
    run_claimed()
    assert fresh(email).mail_state == "failed"
    assert Email.objects.filter(pk=email.pk).kick().changed == 1
    assert fresh(email).mail_state == "unsent"
