"""A project's own mailer that fails in ways that nobody has foreseen."""

from collections.abc import Sequence

from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend


class NetworkError(Exception):
    """As those of httpx and urllib3: no OSError."""


class Odd(EmailBackend):
    """Raises an error of this kind as it opens, or with a message whose subject says so."""

    on_opening: Exception | None = None

    def open(self) -> bool | None:
        if self.on_opening:
            raise self.on_opening
        return super().open()

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        if email_messages[0].subject == "odd":
            raise NetworkError("the wire is gone")
        return super().send_messages(email_messages)
