"""A project's own SMTP backend that connects by itself, or anew before each message, for a fresh
token, say."""

import smtplib

import pytest
from django.core.mail.backends.smtp import EmailBackend
from django.db import connection

from django_dbqueue.mail.models import Email
from django_dbqueue.mail.sending import connections
from tests.kit.mail import deliver_to, outcomes, sent
from tests.kit.smtp_server import ScriptedServer

pytestmark = pytest.mark.usefixtures("db_rows")


class Reconnecting(EmailBackend):
    def send_messages(self, email_messages):
        self.close()
        self.open()
        return super().send_messages(email_messages)


class Connecting(EmailBackend):
    def open(self):
        if self.connection:
            return False
        self.connection = smtplib.SMTP(self.host, self.port, timeout=self.timeout)
        return True


class Both(Reconnecting, Connecting):
    pass


@pytest.mark.parametrize("kind", [Reconnecting, Connecting, Both])
def test_what_the_server_says_is_heard_on_a_connection_that_the_backend_opens_itself(
    settings, kind
):
    connections.close_connections()
    server = ScriptedServer()
    deliver_to(settings, server.port, f"{__name__}.{kind.__name__}")
    email = sent("anna", "refuse")
    connections.close_connections()
    server.close()
    assert outcomes(email) == {"anna": ("delivered", 250), "refuse": ("refused", 550)}
    assert email.mail_state == "partly sent"


def test_it_is_noted_there_before_the_message_goes_out(server, settings):
    deliver_to(settings, server.port, f"{__name__}.Connecting", MAIL_IN_DOUBT="hold")
    seen = []

    def look(_):
        seen.append(Email.objects.get().deliveries)
        connection.close()

    server.before_answer = look
    assert sent("anna").mail_state == "sent"
    assert [one["anna@x.example"]["under_way"] for one in seen] == [True]
