"""Delivery over real SMTP, to a server that takes, defers, refuses, hangs up and stalls."""

import smtplib
import time
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMessage
from django.core.mail.backends.locmem import EmailBackend as MemoryBackend

from django_dbqueue.exceptions import Bury
from django_dbqueue.mail.models import Email
from django_dbqueue.mail.outcomes import NotTaken
from django_dbqueue.mail.sending.send import send
from django_dbqueue.states import Status
from tests.kit.jobs import fresh
from tests.kit.mail import (
    MEMORY,
    QUEUED,
    deliver_to,
    email_of,
    enqueue,
    free_port,
    letter,
    run_mail,
    setting,
)
from tests.kit.smtp_server import ScriptedServer

pytestmark = pytest.mark.usefixtures("db_rows", "impatient", "own_connections")


def test_a_message_is_delivered_with_the_message_id_that_it_was_queued_with(
    server: ScriptedServer,
) -> None:
    email = email_of(letter("anna", body="Grüße"))
    send(email)
    received = server.received[0].message
    assert received["Message-ID"] == email.message_id
    assert received["To"] == "anna@x.example"
    assert received.get_payload(decode=True).decode().strip() == "Grüße"


def test_every_attempt_carries_the_same_message_id(server: ScriptedServer) -> None:
    email = email_of(letter())
    send(email)
    send(email)
    assert {one.message["Message-ID"] for one in server.received} == {email.message_id}


def test_a_message_id_of_the_sender_is_kept(server: ScriptedServer) -> None:
    email = email_of(letter("anna", headers={"message-id": "<mine@x.example>"}))
    assert email.message_id == "<mine@x.example>"
    send(email)
    assert server.received[0].message.get_all("Message-ID") == ["<mine@x.example>"]


def test_a_deferred_message_raises_what_the_server_said(server: ScriptedServer) -> None:
    with pytest.raises(smtplib.SMTPDataError, match=r"451.*greylisted"):
        send(email_of(letter("late")))


def test_a_refused_message_is_buried_with_what_the_server_said(server: ScriptedServer) -> None:
    with pytest.raises(Bury, match=r"refuse@x\.example: 550 5\.1\.1 no such user"):
        send(email_of(letter("refuse")))


def test_a_connection_that_drops_in_the_message_is_retried_and_the_next_message_is_sent(
    server: ScriptedServer,
) -> None:
    with pytest.raises(smtplib.SMTPServerDisconnected):
        send(email_of(letter("drop")))
    send(email_of(letter()))
    assert len(server.received) == 1


def test_a_server_that_stalls_is_left_after_the_timeout(
    server: ScriptedServer, settings: Any
) -> None:
    setting(settings, MAIL_TIMEOUT=0.3)
    begun = time.monotonic()
    with pytest.raises(OSError, match=r"(?i)timed out|unexpectedly closed"):
        send(email_of(letter("stall")))
    assert time.monotonic() - begun < 30


def test_without_a_server_the_refused_connection_is_retried(settings: Any) -> None:
    deliver_to(settings, free_port())
    with pytest.raises(ConnectionRefusedError):
        send(email_of(letter()))


def test_a_bad_address_is_buried_and_the_next_message_is_sent(server: ScriptedServer) -> None:
    with pytest.raises(Bury, match=r"(?i)invalid address|parsed"):
        send(email_of(letter("anna <<")))
    send(email_of(letter()))
    assert len(server.received) == 1


@pytest.mark.parametrize("stored", ["", "{}", '{"version": 9}', '{"version": 1}'])
def test_a_broken_stored_message_is_buried(server: ScriptedServer, stored: str) -> None:
    email = email_of(letter())
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
        send(email_of(letter()))


def test_an_unknown_error_of_a_backend_loses_no_message(settings: Any) -> None:
    deliver_to(settings, 0, f"{__name__}.Broken")
    with pytest.raises(KeyError, match="template"):
        send(email_of(letter()))


def test_any_backend_delivers(settings: Any, mailoutbox: list[EmailMessage]) -> None:
    deliver_to(settings, 0, MEMORY)
    send(email_of(letter()))
    assert mailoutbox[0].to == ["anna@x.example"]


@pytest.mark.parametrize("backend", [QUEUED, "no.such.Backend"])
def test_a_mailer_that_cannot_deliver_loses_no_message(settings: Any, backend: str) -> None:
    deliver_to(settings, 0, backend)
    with pytest.raises((ImproperlyConfigured, ImportError)):
        send(email_of(letter()))


def test_each_message_has_its_own_outcome(server: ScriptedServer) -> None:
    names = ["anna", "late", "refuse", "<<bad", "drop", "berta"]
    emails = [enqueue(letter(name)) for name in names]
    run_mail()
    after = dict(zip(names, map(fresh, emails), strict=True))
    assert [after[name].mail_state for name in ("anna", "berta")] == ["sent", "sent"]
    assert [after[name].mail_state for name in ("refuse", "<<bad")] == ["failed", "failed"]
    assert "550 5.1.1 no such user" in after["refuse"].last_error
    for name in ("late", "drop"):
        assert after[name].status == Status.DELAYED
        assert after[name].mail_state.startswith("retry at 2")
    assert after["late"].last_error == "SMTPDataError: (451, b'4.7.1 greylisted')"


def test_a_failed_message_is_sent_after_a_kick(server: ScriptedServer) -> None:
    email = enqueue(letter("refuse"))
    run_mail()
    assert fresh(email).mail_state == "failed"
    assert Email.objects.filter(pk=email.pk).kick().changed == 1
    assert fresh(email).mail_state == "unsent"
