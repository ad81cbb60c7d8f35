"""A project's own SMTP backend that connects anew before each message, for a fresh token, say."""

import pytest
from django.core.mail.backends.smtp import EmailBackend

from django_dbqueue.mail.sending import connections
from tests.kit.mail import deliver_to, outcomes, sent
from tests.kit.smtp_server import ScriptedServer

pytestmark = pytest.mark.usefixtures("db_rows")

HERE = f"{__name__}.Reconnecting"


class Reconnecting(EmailBackend):
    def send_messages(self, email_messages):
        self.close()
        self.open()
        return super().send_messages(email_messages)


def test_what_the_server_says_is_heard_on_a_connection_that_the_backend_opens_itself(settings):
    connections.close_connections()
    server = ScriptedServer()
    deliver_to(settings, server.port, HERE)
    email = sent("anna", "refuse")
    connections.close_connections()
    server.close()
    assert outcomes(email) == {"anna": ("delivered", 250), "refuse": ("refused", 550)}
    assert email.mail_state == "partly sent"
