"""Errors that nobody has foreseen: what may pass is retried, what is the message's own fails."""

import smtplib
import ssl
import urllib.error
from email.errors import HeaderParseError

import pytest
import requests
from anymail.exceptions import (
    AnymailAPIError,
    AnymailInvalidAddress,
    AnymailRecipientsRefused,
    AnymailRequestsAPIError,
    AnymailSerializationError,
    AnymailUnsupportedFeature,
)

from django_dbqueue.mail.models import Email, Mailer
from django_dbqueue.mail.outcomes import classify, code_and_text
from django_dbqueue.states import Status
from tests.kit.jobs import fresh
from tests.kit.mail import deliver_to, outcomes, queued, retried, run_mail, sent
from tests.kit.mail_provider import provider
from tests.kit.odd_mailer import NetworkError, Odd

SES = "anymail.backends.amazon_ses.EmailBackend"
ODD = "tests.kit.odd_mailer.Odd"


class StatusError(NetworkError):
    def __init__(self, status):
        super().__init__(f"status {status}")
        self.response = requests.Response()
        self.response.status_code = status


def amazon(status, code):
    """As anymail raises what botocore was answered."""
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return AnymailAPIError("An error occurred", response=answer)


def caused(error, cause):
    error.__cause__ = cause
    return error


def named(*kinds):
    return type("AnymailRequestsAPIError", (AnymailRequestsAPIError, *kinds), {})("no connection")


MEANINGS = [
    # A provider's own words
    (amazon(429, "TooManyRequestsException"), "pause", 429),
    (amazon(400, "Throttling"), "pause", 400),
    (amazon(400, "ThrottlingException"), "pause", 400),
    (amazon(400, "LimitExceededException"), "pause", 400),
    (amazon(400, "SendingPausedException"), "pause", 400),
    (amazon(400, "ExpiredTokenException"), "retry", 400),
    (amazon(400, "MailFromDomainNotVerifiedException"), "retry", 400),
    (amazon(403, "AccessDeniedException"), "retry", 403),
    (amazon(500, "InternalFailure"), "retry", 500),
    (amazon(400, "MessageRejected"), "fail", 400),
    (amazon(400, "BadRequestException"), "fail", 400),
    (caused(NetworkError(), amazon(400, "Throttling")), "pause", 400),
    # The status of an answer
    (StatusError(429), "pause", 429),
    (StatusError(503), "retry", 503),
    (StatusError(302), "retry", 302),
    (StatusError(422), "fail", 422),
    (StatusError(200), "fail", 200),
    (caused(AnymailAPIError("no"), StatusError(422)), "fail", 422),
    (urllib.error.HTTPError("http://x.example", 503, "no", None, None), "retry", 503),
    (urllib.error.HTTPError("http://x.example", 400, "no", None, None), "fail", 400),
    # No answer at all
    (AnymailAPIError("no"), "retry", None),
    (caused(AnymailAPIError("no"), ConnectionError()), "retry", None),
    (caused(AnymailAPIError("no"), ValueError("not JSON")), "retry", None),
    (caused(ValueError("no"), ConnectionResetError()), "retry", None),
    (named(requests.ConnectionError), "retry", None),
    (named(requests.exceptions.InvalidURL), "retry", None),
    (ssl.SSLCertVerificationError("no"), "retry", None),
    (NetworkError(), "retry", None),
    # A mail server's, in other clothes
    (caused(NetworkError(), smtplib.SMTPDataError(554, b"spam")), "fail", None),
    (caused(NetworkError(), smtplib.SMTPDataError(451, b"later")), "retry", None),
    # A bug
    (RuntimeError(), "retry", None),
    (AttributeError(), "retry", None),
    (KeyError("x"), "retry", None),
    # The message's own
    (ValueError(), "fail", None),
    (TypeError(), "fail", None),
    (UnicodeEncodeError("ascii", "ü", 0, 1, "no"), "fail", None),
    (LookupError("unknown encoding: x"), "fail", None),
    (HeaderParseError(), "fail", None),
    (AnymailInvalidAddress("no"), "fail", None),
    (AnymailUnsupportedFeature("no"), "fail", None),
    (AnymailSerializationError("no"), "fail", None),
    (AnymailRecipientsRefused("no"), "fail", None),
]


@pytest.mark.parametrize(("error", "meaning", "code"), MEANINGS, ids=lambda one: repr(one)[:60])
def test_what_an_error_means(error, meaning, code):
    assert (classify(error), code_and_text(error)[0]) == (meaning, code)


def test_errors_that_cause_each_other_come_to_an_end():
    first, second = NetworkError(), NetworkError()
    first.__cause__, second.__cause__ = second, first
    assert classify(first) == "retry"


@pytest.mark.usefixtures("db_rows", "own_connections")
@pytest.mark.parametrize(
    ("status", "kind", "state", "rests"),
    [
        (429, "TooManyRequestsException", Status.DELAYED, True),
        (400, "LimitExceededException", Status.DELAYED, True),
        (503, "ServiceUnavailable", Status.DELAYED, False),
        (400, "MessageRejected", Status.BURIED, False),
    ],
)
def test_what_amazon_answers_is_understood(settings, status, kind, state, rests):
    config = pytest.importorskip("botocore.config").Config(retries={"total_max_attempts": 1})
    with provider(status, {"__type": kind, "message": "No!"}) as (address, received):
        client = {"endpoint_url": address, "region_name": "x-1", "config": config}
        client |= {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
        settings.ANYMAIL = {"AMAZON_SES_CLIENT_PARAMS": client}
        deliver_to(settings, 0, SES)
        email = sent("anna")
    assert len(received) == 1
    assert (email.status, outcomes(email)["anna"][1]) == (state, status)
    assert Mailer.objects.filter(paused_until__isnull=False).exists() == rests


@pytest.fixture
def odd(server, settings):
    deliver_to(settings, server.port, ODD, MAIL_TIMEOUT=0.5, MAIL_RETRY_FIRST=0.01)
    return server


@pytest.mark.usefixtures("db_rows")
def test_an_unknown_error_is_retried_by_the_schedule_and_holds_up_no_other_mail(odd):
    bad = queued("anna", subject="odd")
    others = [queued("berta") for _ in range(3)]
    run_mail()
    assert {fresh(one).mail_state for one in others} == {"sent"}
    bad = fresh(bad)
    assert (bad.status, outcomes(bad)) == (Status.DELAYED, {"anna": ("deferred", None)})
    for _ in range(Email.policy().max_attempts - 1):
        bad = retried(bad)
    assert (bad.status, bad.mail_state) == (Status.BURIED, "failed")


@pytest.mark.usefixtures("db_rows")
def test_before_there_is_a_connection_no_error_is_of_the_message(odd, monkeypatch):
    monkeypatch.setattr(Odd, "on_opening", ValueError("Invalid endpoint"))
    email = sent("anna")
    assert (email.status, outcomes(email)) == (Status.DELAYED, {"anna": ("deferred", None)})
