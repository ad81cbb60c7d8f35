"""A server that has had enough of a connection: the next mail goes out at once on a new one."""

import socket
import struct

import pytest

from django_dbqueue.mail.models import Mailer
from django_dbqueue.states import Status
from tests.kit import smtp_server
from tests.kit.jobs import fresh
from tests.kit.mail import outcomes, queued, run_mail, sent, setting
from tests.kit.smtp_server import Dialogue

pytestmark = pytest.mark.usefixtures("db_rows", "impatient")

SENT = {"anna": ("delivered", 250)}


class AfterEach(Dialogue):
    """Hangs up after each message."""

    def answer(self, received, refusal):
        super().answer(received, refusal)
        return False


class ResetAfterEach(AfterEach):
    def answer(self, received, refusal):
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return super().answer(received, refusal)


class OneEach(Dialogue):
    """Says goodbye to a second message."""

    carried = 0

    def do_MAIL(self):
        self.carried += 1
        return self.say("421 4.4.2 reconnect") if self.carried > 1 else super().do_MAIL()


class NoMore(Dialogue):
    """After the first message of all nothing is taken any more, on whatever connection."""

    def do_MAIL(self):
        return self.say("421 4.7.0 go away") if self.server.received else super().do_MAIL()


class Deaf(Dialogue):
    """Does not answer to a second message."""

    carried = 0

    def do_MAIL(self):
        self.carried += 1
        if self.carried > 1:
            self.server.stall()
            return False
        return super().do_MAIL()


class AtRecipient(OneEach):
    """Hears of the recipient first."""

    def do_MAIL(self):
        self.carried += 1
        return Dialogue.do_MAIL(self)

    def do_RCPT(self):
        return self.say("421 4.4.2 reconnect") if self.carried > 1 else super().do_RCPT()


@pytest.fixture
def answering(server, monkeypatch):
    def answer(kind):
        monkeypatch.setattr(smtp_server, "Dialogue", kind)
        return server

    return answer


def rests():
    return Mailer.objects.filter(paused_until__isnull=False).exists()


@pytest.mark.parametrize("kind", [AfterEach, ResetAfterEach, OneEach])
def test_no_mail_has_to_wait_for_that(answering, kind):
    server = answering(kind)
    emails = [queued("anna") for _ in range(4)]
    run_mail()
    assert [outcomes(fresh(email)) for email in emails] == [SENT] * 4
    assert (len(server.received), server.connections, rests()) == (4, 4, False)
    assert {fresh(email).attempts for email in emails} == {1}


def test_it_is_tried_once_and_a_421_on_a_new_connection_pauses_as_ever(answering):
    server = answering(NoMore)
    first, second = queued("anna"), queued("anna")
    run_mail()
    assert (outcomes(fresh(first)), outcomes(fresh(second))) == (SENT, {"anna": ("deferred", 421)})
    assert (server.connections, rests()) == (2, True)


def test_a_new_connection_that_is_refused_is_not_tried_twice(answering):
    server = answering(OneEach)
    assert sent("anna").mail_state == "sent"
    server.close()
    email = sent("anna")
    assert (email.status, outcomes(email)) == (Status.DELAYED, {"anna": ("deferred", None)})


def test_a_server_that_says_nothing_is_not_waited_for_twice(answering):
    server = answering(Deaf)
    assert sent("anna").mail_state == "sent"
    assert sent("anna").status == Status.DELAYED
    assert server.connections == 1


def test_after_a_word_on_a_recipient_it_is_that_words_turn(answering):
    server = answering(AtRecipient)
    assert sent("anna").mail_state == "sent"
    assert outcomes(sent("anna")) == {"anna": ("deferred", 421)}
    assert (server.connections, rests()) == (1, True)


def test_a_first_message_is_not_tried_twice(answering, settings):
    setting(settings, MAIL_CONNECTION_MAX_MESSAGES=1)
    server = answering(NoMore)
    assert sent("anna").mail_state == "sent"
    assert outcomes(sent("anna")) == {"anna": ("deferred", 421)}
    assert (server.connections, rests()) == (2, True)
