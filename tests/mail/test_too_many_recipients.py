"""A server takes a message for so many recipients, and for the others with another one."""

import smtplib
import time
from collections import Counter

import pytest
from django.core.mail.backends.smtp import EmailBackend

from django_dbqueue.mail.models import Suppression
from django_dbqueue.states import Status
from tests.kit.mail import address, deliver_to, outcomes, sent, setting

pytestmark = pytest.mark.usefixtures("db_rows")

TOO_MANY = 452, b"4.5.3 too many recipients"


@pytest.fixture
def takes(server, monkeypatch):
    """A server that takes so many at once, and says this to the others."""
    ask, begin, asked = smtplib.SMTP.rcpt, smtplib.SMTP.mail, []

    def take(most, answer=TOO_MANY):
        def rcpt(self, *given):
            asked.append(given)
            return ask(self, *given) if len(asked) <= most else answer

        monkeypatch.setattr(smtplib.SMTP, "rcpt", rcpt)
        return server

    def mail(self, *given):
        asked.clear()
        return begin(self, *given)

    monkeypatch.setattr(smtplib.SMTP, "mail", mail)
    return take


def sizes(server):
    return [len(one.recipients) for one in server.received]


@pytest.mark.parametrize("hold", [{}, {"MAIL_IN_DOUBT": "hold"}])
@pytest.mark.parametrize("answer", [TOO_MANY, (552, b"Too many recipients")])
def test_all_of_them_get_it_with_one_attempt(takes, settings, answer, hold):
    setting(settings, **hold)
    server = takes(10, answer)
    email = sent(*[f"r{number}" for number in range(35)])
    assert (email.mail_state, email.attempts) == ("sent", 1)
    assert Counter(outcomes(email).values()) == {("delivered", 250): 35}
    assert sizes(server) == [10, 10, 10, 5]
    assert len({who for one in server.received for who in one.recipients}) == 35


def test_others_keep_what_was_said_of_them(takes):
    server = takes(3)
    Suppression.objects.create(address=address("gone"))
    email = sent("anna", "gone", "refuse", "bert", "carl", "defer")
    assert {name: told for name, (told, _) in outcomes(email).items()} == {
        **dict.fromkeys(["anna", "bert", "carl"], "delivered"),
        "gone": "suppressed",
        "refuse": "refused",
        "defer": "deferred",
    }
    assert sizes(server) == [2, 1]


def test_where_the_next_message_fails_who_has_got_it_is_known(takes, server):
    takes(1)
    server.before_answer = lambda _: server.to_recipients.update(bert="421 4.7.0 busy")
    email = sent("anna", "bert")
    assert outcomes(email) == {"anna": ("delivered", 250), "bert": ("deferred", 421)}
    assert email.status == Status.DELAYED


def test_what_is_full_otherwise_is_not_asked_at_once(takes):
    server = takes(1, (452, b"4.2.2 mailbox full"))
    assert outcomes(sent("anna", "bert"))["bert"] == ("deferred", 452)
    assert sizes(server) == [1]


def test_not_without_end(takes, monkeypatch):
    monkeypatch.setattr("django_dbqueue.mail.sending.send.SPARE_SECONDS", 299.5)
    server = takes(1)
    server.before_answer = lambda _: time.sleep(0.3)
    assert outcomes(sent("anna", "bert"))["bert"] == ("deferred", 452)
    assert sizes(server) == [1]


def test_those_of_the_override_do_not_get_a_part_of_it_anew(takes, settings):
    """They share one outcome; where they were the mail's own, some would be left deferred."""
    server, names = takes(2), ["anna", "bert", "carl"]
    setting(settings, MAIL_OVERRIDE_RECIPIENTS=[address(name) for name in names])
    assert outcomes(sent(*names)) == dict.fromkeys(names, ("deferred", 452))
    assert sizes(server) == [2]


class Swallowing(EmailBackend):
    """It says of what was refused that it was sent."""

    def send_messages(self, email_messages):
        try:
            return super().send_messages(email_messages)
        except smtplib.SMTPRecipientsRefused:
            return len(email_messages)


def test_it_is_not_handed_over_again_where_it_was_taken_for_nobody(takes, settings, monkeypatch):
    monkeypatch.setattr("django_dbqueue.mail.sending.send.SPARE_SECONDS", 297)
    server, asked = takes(0), []
    deliver_to(settings, server.port, f"{__name__}.Swallowing")
    ask = Swallowing.send_messages
    monkeypatch.setattr(Swallowing, "send_messages", lambda *all_: asked.append(all_) or ask(*all_))
    assert outcomes(sent("anna", "bert")) == dict.fromkeys(["anna", "bert"], ("deferred", 452))
    assert len(asked) == 1
