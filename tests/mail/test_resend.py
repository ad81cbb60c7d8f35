"""Sending again: a new mail, to those who have not got it, linked to the old one."""

import json
import threading
from typing import Any

import pytest
from django.core.mail import EmailMultiAlternatives
from django.db import connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from django_dbqueue.mail import rows
from django_dbqueue.mail.deliveries import Outcome
from django_dbqueue.mail.models import ArchivedEmail, Email
from django_dbqueue.mail.models import email as module
from django_dbqueue.mail.models.email import read
from django_dbqueue.mail.privacy.erase import erase
from django_dbqueue.mail.resending import resend_many
from tests.kit.jobs import fresh, in_thread, start_all
from tests.kit.mail import MAILER, archived, columns_of, enqueue, finished, letter, queued

pytestmark = [pytest.mark.usefixtures("db_rows", "queueing"), pytest.mark.each_database]

BOTH = ("anna@x.example", "bert@x.example")


def run_all() -> None:
    for job in Email.objects.claim(limit=10):
        job.run()
        job.complete()


def recipients_of(outbox: list[Any]) -> list[list[str]]:
    return [message.recipients() for message in outbox]


def test_many_are_queued_by_inserts_that_a_server_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    old = [finished(letter(body="x" * 2000), failed=True) for _ in range(5)]
    monkeypatch.setattr(rows, "INSERT_BYTES", 5000)
    with CaptureQueriesContext(connection) as queries:
        assert len(resend_many(old).new) == 5
    emails = [q for q in queries if q["sql"].startswith("INSERT") and "message" in q["sql"]]
    assert len(emails) == 3
    assert Email.objects.filter(resend_of__in=[one.pk for one in old]).count() == 5


def test_messages_of_many_are_read_when_they_are_asked_for() -> None:
    [new] = resend_many([finished(letter(body="the text"), failed=True)]).new
    assert "message" in new.get_deferred_fields()
    assert new.to_message().body == "the text"


def test_a_failed_mail_is_sent_again_as_a_new_one_that_knows_it(mailoutbox: list[Any]) -> None:
    old = finished(letter(body="the text"), failed=True, anna=Outcome.REFUSED)
    new = old.resend()
    assert (new.resend_of, new.mail_state, new.pk > old.pk) == (old.pk, "unsent", True)
    assert new.message_id != old.message_id
    assert new.deliveries == {}
    run_all()
    [sent] = mailoutbox
    assert (sent.body, sent.recipients()) == ("the text", ["anna@x.example"])
    assert sent.message()["Message-ID"] == new.message_id
    assert fresh(new).mail_state == "sent"
    assert fresh(old).mail_state == "failed"


def test_only_who_has_not_got_it_gets_it(mailoutbox: list[Any]) -> None:
    old = finished(letter(*BOTH), failed=True, anna=Outcome.DELIVERED, bert=Outcome.REFUSED)
    new = old.resend()
    assert new.deliveries == {"anna@x.example": old.deliveries["anna@x.example"]}
    run_all()
    assert recipients_of(mailoutbox) == [["bert@x.example"]]
    assert fresh(new).mail_state == "sent"
    assert set(fresh(new).deliveries) == set(BOTH)


@pytest.mark.parametrize(
    "outcome", [Outcome.SUPPRESSED, Outcome.NOT_ALLOWED, Outcome.IN_DOUBT, Outcome.DEFERRED]
)
def test_whoever_may_not_have_got_it_is_asked_again(
    mailoutbox: list[Any], outcome: Outcome
) -> None:
    finished(letter(*BOTH), failed=True, anna=Outcome.REDIRECTED, bert=outcome).resend()
    run_all()
    assert recipients_of(mailoutbox) == [["bert@x.example"]]


def test_where_everybody_has_got_it_everybody_gets_it_again(mailoutbox: list[Any]) -> None:
    old = finished(letter(*BOTH), anna=Outcome.DELIVERED, bert=Outcome.DELIVERED)
    assert old.resend().deliveries == {}
    run_all()
    assert recipients_of(mailoutbox) == [list(BOTH)]


def test_a_message_id_of_the_senders_own_is_not_used_twice() -> None:
    old = finished(letter(headers={"message-ID": "<own@x.example>", "X-A": "kept"}))
    new = old.resend()
    message = new.to_message()
    assert message.extra_headers["X-A"] == "kept"
    assert message.message().get_all("Message-ID") == [new.message_id]
    assert new.message_id != old.message_id == "<own@x.example>"


def test_all_else_is_as_it_was() -> None:
    message = EmailMultiAlternatives(
        "Hi", "text", "s@x.example", ["a@x.example"], bcc=["b@x.example"], reply_to=["r@x.example"]
    )
    message.attach_alternative("<p>Hi</p>", "text/html")
    message.attach("a.bin", b"\0\1", "application/x-bin")
    message.tags = ["news"]  # type: ignore[attr-defined]
    old = enqueue(message, queue="bulk", priority="low")
    [job] = Email.objects.claim(limit=1, queue="bulk")
    job.complete()
    QuerySet(Email).filter(pk=old.pk).update(about=17)
    old = fresh(old)
    new = fresh(old.resend())
    for column in ("queue", "priority", "using", "recipients", "from_email", "subject", "about"):
        assert getattr(new, column) == getattr(old, column), column
    assert (new.priority, new.queue, new.about) == (4096, "bulk", 17)
    assert json.loads(new.message) == json.loads(old.message)
    assert new.using == MAILER


def test_mail_in_the_archive_is_sent_again_too(mailoutbox: list[Any]) -> None:
    old = archived(
        finished(letter(*BOTH), failed=True, anna=Outcome.DELIVERED, bert=Outcome.REFUSED)
    )
    assert isinstance(old, ArchivedEmail)
    assert old.resend().resend_of == old.pk
    run_all()
    assert recipients_of(mailoutbox) == [["bert@x.example"]]


def test_expired_mail_does_not_expire_again(mailoutbox: list[Any]) -> None:
    old = finished()
    past = "2020-01-01T00:00:00Z"
    QuerySet(Email).filter(pk=old.pk).update(expires_at=past, dequeued_time=None)
    assert fresh(old).mail_state == "expired"
    assert fresh(old).resend().expires_at is None
    run_all()
    assert len(mailoutbox) == 1


def refused(email: Any, why: str) -> None:
    before = Email.objects.count()
    with pytest.raises(ValueError, match=why):
        email.resend()
    assert Email.objects.count() == before


def test_claimed_and_waiting_mail_is_not_sent_again() -> None:
    email = queued()
    refused(email, "still waits to be sent")
    [job] = Email.objects.claim(limit=1)
    refused(email, "is claimed just now")  # whatever the instance has seen
    job.fail(TimeoutError("slow"))
    refused(email, "still waits to be sent")


def test_erased_and_unreadable_mail_is_not_sent_again() -> None:
    email = finished()
    assert erase([email])
    refused(email, "was erased")
    for broken in ('{"version": 7}', "no json", "[]", '{"version": 1}', '{"version": 1, "to": 5}'):
        QuerySet(Email).filter(pk=email.pk).update(message=broken, is_erased=False)
        refused(email, "cannot be read|not one that|JSON|line 1")


def test_mail_that_is_gone_is_not_sent_again() -> None:
    email = finished()
    archived(email)
    refused(email, "not there any more")


def test_one_that_is_being_sent_again_is_not_sent_a_third_time(mailoutbox: list[Any]) -> None:
    old = finished(failed=True, anna=Outcome.REFUSED)
    new = old.resend()
    refused(old, f"being sent again by email {new.pk}")
    run_all()
    assert old.resend().pk > new.pk


def test_two_who_ask_at_once_queue_one() -> None:
    old = finished(failed=True)
    problems = []

    def ask() -> None:
        try:
            fresh(old).resend()
        except ValueError as error:
            problems.append(str(error))

    start_all(ask, ask, ask)
    assert Email.objects.filter(resend_of=old.pk).count() == 1
    assert len(problems) == 2


def test_it_is_queued_with_the_callers_transaction() -> None:
    old = finished()
    with transaction.atomic():
        old.resend()
        transaction.set_rollback(True)
    assert not Email.objects.filter(resend_of=old.pk).exists()


def test_nobody_claims_it_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retried by somebody while it is read: one of the two has to wait, and sees the other."""
    if connection.vendor == "sqlite":
        pytest.skip("a transaction holds the whole database")
    old = finished(failed=True)
    kicked = threading.Event()

    def slowly(email: Any) -> Any:
        def kick() -> None:
            with connection.cursor() as cursor:
                timeout = {
                    "mysql": "SET innodb_lock_wait_timeout = 1",
                    "postgresql": "SET lock_timeout = '300ms'",
                }
                cursor.execute(timeout[connection.vendor])
            try:
                Email.objects.filter(pk=old.pk).kick()
            except Exception:
                kicked.set()

        in_thread(kick)
        return read(email)

    monkeypatch.setattr(module, "read", slowly)
    old.resend()
    assert kicked.is_set()


# --- erasing ------------------------------------------------------------------------------------


def test_only_the_message_of_finished_mail_is_erased() -> None:
    email = finished(letter(body="secret"), anna=Outcome.DELIVERED)
    before = columns_of(email)
    assert erase([email])
    assert not erase([email])
    assert columns_of(fresh(email)) == before | {"message": "", "subject": "", "is_erased": True}


def test_nothing_is_erased_of_mail_that_waits_or_is_claimed() -> None:
    email = queued()
    assert not erase([email])
    [job] = Email.objects.claim(limit=1)
    assert not erase([email])
    job.fail(TimeoutError("slow"))
    assert not erase([email])
    assert fresh(email).to_message().body == "text"
    Email.objects.filter(pk=email.pk).bury()
    assert erase([email])


def test_the_archive_is_erased_as_well() -> None:
    email = archived(finished())
    assert erase([email])
    assert ArchivedEmail.objects.get().message == ""
