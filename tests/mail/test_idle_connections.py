"""A connection that was idle is asked whether it still works before a message is begun on it."""

import time

import pytest

from django_dbqueue.mail.sending import connections
from tests.kit import smtp_server
from tests.kit.mail import outcomes, sent, setting
from tests.kit.smtp_server import Dialogue

pytestmark = pytest.mark.usefixtures("db_rows", "impatient")

SENT = {"anna": ("delivered", 250)}


class Counting(Dialogue):
    """Counts how often it was asked whether it is there."""

    def do_NOOP(self):
        self.server.noops = noops(self.server) + 1  # type: ignore[attr-defined]
        return self.answer_noop()

    def answer_noop(self):
        return self.say("250 here")


class Forgotten(Counting):
    """A firewall forgets a connection that has carried a message: nobody answers on it."""

    is_forgotten = False

    def read(self):
        line = super().read()
        if self.is_forgotten:
            self.server.stall()
        return line

    def answer(self, received, refusal):
        self.is_forgotten = True
        return super().answer(received, refusal)


class Tired(Counting):
    """Has had enough, and says so when it is asked."""

    def answer_noop(self):
        return self.say("421 4.4.2 idle for too long")


class Confused(Counting):
    """Stays, but does not know what is asked of it."""

    def answer_noop(self):
        return self.say("500 what?")


def noops(server):
    return getattr(server, "noops", 0)


@pytest.fixture
def answering(server, monkeypatch):
    def answer(kind):
        monkeypatch.setattr(smtp_server, "Dialogue", kind)
        return server

    return answer


@pytest.fixture
def rest(monkeypatch):
    """Let time pass for the connections: so many seconds."""
    passed = 0.0

    def rest(seconds):
        nonlocal passed
        passed += seconds

    monkeypatch.setattr(connections, "monotonic", lambda: time.monotonic() + passed)
    return rest


def test_a_connection_that_answers_is_used_again(answering, rest):
    server = answering(Counting)
    for asked in range(3):
        assert outcomes(sent("anna")) == SENT
        assert (server.connections, noops(server)) == (1, asked)
        rest(10)


def test_one_that_is_in_use_is_asked_nothing(answering, rest, settings, monkeypatch):
    # However slow this machine is.
    monkeypatch.setattr(connections, "IDLE_SECONDS", 60.0)
    setting(settings, MAIL_CONNECTION_MAX_AGE=1000)
    server = answering(Counting)
    for _ in range(4):
        assert outcomes(sent("anna")) == SENT
        rest(30)
    assert (server.connections, noops(server)) == (1, 0)


@pytest.mark.parametrize("kind", [Forgotten, Tired, Confused])
def test_no_message_is_begun_on_one_that_does_not_answer(answering, rest, kind):
    server = answering(kind)
    for number in (1, 2):
        email = sent("anna")
        assert (outcomes(email), email.attempts) == (SENT, 1)
        assert (len(server.received), server.connections) == (number, number)
        rest(10)
