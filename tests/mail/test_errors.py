"""What an error of delivery means: temporary or final, in which words, and when the next try is."""

import smtplib
import socket
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_dbqueue.mail.backoff import MailBackoff
from django_dbqueue.mail.outcomes import NotTaken, classify, explain


def refused(*codes: int) -> smtplib.SMTPRecipientsRefused:
    return smtplib.SMTPRecipientsRefused({f"r{i}": (c, b"no") for i, c in enumerate(codes)})


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (smtplib.SMTPDataError(451, b"greylisted"), "retry"),
        (smtplib.SMTPDataError(421, b"too many"), "pause"),
        (smtplib.SMTPDataError(554, b"spam"), "fail"),
        (smtplib.SMTPDataError(552, b"too large"), "fail"),
        (smtplib.SMTPResponseException(-1, b"?"), "retry"),
        (smtplib.SMTPSenderRefused(450, b"wait", "a"), "retry"),
        (smtplib.SMTPSenderRefused(550, b"no", "a"), "fail"),
        (smtplib.SMTPSenderRefused(530, b"log in first", "a"), "retry"),
        (refused(550), "fail"),
        (refused(550, 553), "fail"),
        (refused(550, 451), "retry"),
        (refused(450), "retry"),
        (smtplib.SMTPAuthenticationError(535, b"no"), "pause"),
        (smtplib.SMTPNotSupportedError("STARTTLS"), "retry"),
        (smtplib.SMTPConnectError(554, b"go away"), "retry"),
        (smtplib.SMTPHeloError(550, b"who"), "retry"),
        (smtplib.SMTPServerDisconnected("gone"), "retry"),
        (ConnectionResetError(), "retry"),
        (TimeoutError(), "retry"),
        (socket.gaierror(-3, "name"), "retry"),
        (ImproperlyConfigured("mailer"), "retry"),
        (NotTaken(), "retry"),
        (ValueError("Invalid address"), "fail"),
        (UnicodeError("charset"), "fail"),
        (KeyError("x"), "retry"),
    ],
)
def test_an_error_is_temporary_or_final(error: Exception, outcome: str) -> None:
    assert classify(error) == outcome


def test_an_error_is_explained_with_codes_and_text() -> None:
    assert explain(smtplib.SMTPDataError(554, b"sp\xffam")) == "SMTPDataError: 554 sp\ufffdam"
    assert explain(refused(550, 553)) == "SMTPRecipientsRefused: r0: 550 no; r1: 553 no"
    assert explain(ValueError("bad")) == "ValueError: bad"


def test_the_first_retry_comes_after_20_minutes_and_they_grow_to_6_hours(settings: Any) -> None:
    pauses = [MailBackoff().seconds(attempt) for attempt in range(1, 8)]
    assert 1080 <= pauses[0] <= 1320
    assert 2160 <= pauses[1] <= 2640
    assert 0.9 * 6 * 3600 <= pauses[6] <= 1.1 * 6 * 3600
    settings.DBQUEUE = {"MAIL_RETRY_FIRST": 60}
    assert 54 <= MailBackoff().seconds(1) <= 66
