"""A project's mailer raises when the server has the message, say where it cannot write its log."""

import pytest
from django.core.mail.backends.smtp import EmailBackend

from tests.kit.mail import address, deliver_to, outcomes, retried, sent

pytestmark = pytest.mark.usefixtures("db_rows")


class Raising(EmailBackend):
    def send_messages(self, email_messages):
        super().send_messages(email_messages)
        raise RuntimeError("no log")


@pytest.fixture
def raising(server, settings):
    deliver_to(settings, server.port, f"{__name__}.Raising", MAIL_RETRY_FIRST=0.01)
    return server


def test_who_has_it_does_not_get_it_again(raising, caplog):
    email = sent("anna", "Bert <bert@bücher.example>")
    assert email.mail_state == "sent"
    assert len(raising.received) == 1
    assert "the mail is sent, and then its mailer raised: RuntimeError: no log" in caplog.text


def test_the_others_are_tried_again(raising):
    email = sent("anna", "defer")
    assert outcomes(email) == {"anna": ("delivered", 250), "defer": ("deferred", 450)}
    raising.to_recipients.clear()
    assert retried(email).mail_state == "sent"
    assert [one.recipients for one in raising.received] == [[address("anna")], [address("defer")]]


def test_who_was_not_taken_does_not_have_it(raising):
    assert outcomes(sent("late")) == {"late": ("deferred", 451)}
