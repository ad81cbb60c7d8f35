"""What an error of a delivery means for the message."""

import smtplib
from typing import Literal

from django.core.exceptions import ImproperlyConfigured

Outcome = Literal["retry", "fail"]

# "Log in first", "wrong password" and the like, whatever command they answer.
LOGIN_CODES = {530, 534, 535, 538}

# These speak of our account, our host or our settings, whatever their code: no message is lost
# for a fault that it has no part in.
OUR_FAULT = (
    smtplib.SMTPAuthenticationError,
    smtplib.SMTPNotSupportedError,
    smtplib.SMTPConnectError,
    smtplib.SMTPHeloError,
    ImproperlyConfigured,
    ImportError,
    MemoryError,
)


class NotTaken(Exception):
    """The delivery backend reported no error and no message sent."""


def classify(error: Exception) -> Outcome:
    """Whether a message that met this error is to be tried again or has failed.

    Retried: SMTP 4xx, lost and refused connections, timeouts, faults of our own configuration.
    Failed: SMTP 5xx, and whatever a broken message makes Django or the backend raise.
    Where all recipients were refused, one temporary refusal is enough for another try.
    """
    if isinstance(error, OUR_FAULT):
        return "retry"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return _of_codes([code for code, _ in error.recipients.values()])
    if isinstance(error, smtplib.SMTPResponseException):
        return _of_codes([error.smtp_code])
    return "retry" if isinstance(error, (OSError, NotTaken)) else "fail"


def explain(error: Exception) -> str:
    """The error in one line, with the server's code and text as text."""
    name = type(error).__name__
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        said = [f"{who}: {code} {_text(text)}" for who, (code, text) in error.recipients.items()]
        return f"{name}: {'; '.join(said)}"
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{name}: {error.smtp_code} {_text(error.smtp_error)}"
    return f"{name}: {error}"


def _of_codes(codes: list[int]) -> Outcome:
    final = codes and all(code >= 500 and code not in LOGIN_CODES for code in codes)
    return "fail" if final else "retry"


def _text(said: bytes | str) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said
