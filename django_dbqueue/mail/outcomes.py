"""What an error of a delivery means for the message."""

import logging
import re
import smtplib
from collections.abc import Iterator, Mapping
from email.errors import MessageError
from typing import Any, Literal

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from ..guard import capture, message_of
from .conf import mail_conf

logger = logging.getLogger("django_dbqueue")

Meaning = Literal["retry", "fail", "pause"]
MEANINGS = ("retry", "fail", "pause")

# "Log in first", "wrong password" and the like, whatever command they answer.
LOGIN_CODES = {530, 534, 535, 538}
# The server wants to be left alone: it closes the channel, or we were too fast.
PAUSE_CODES = {421, 454}
# To a recipient: too many in one message, says RFC 5321 (4.5.3.1.10), so not for good.
TOO_MANY = TOO_MUCH = 552
# A mailbox is emptied some day; else the message is too big.
MAILBOX_FULL = re.compile(r"5\.2\.2\b")
# Of HTTP, for mailers that speak it.
HTTP_OURS = {401, 402, 403, 404, 405}
HTTP_LATER = {408, 409, 425, 429}
HTTP_STATUSES = range(100, 600)
# Where errors have it: anymail, requests and httpx; aiohttp; urllib.
STATUS_ATTRIBUTES = ("status_code", "status", "code")
CAUSES_MAX = 10
# Amazon says these with a status of 400, as it does of a message that it refuses.
TOO_FAST = re.compile(
    "throttl|toomanyrequests|limitexceeded|ratexceeded|rateexceeded|slowdown|sendingpaused",
    re.IGNORECASE,
)
LATER = re.compile(
    "timeout|timedout|unavailable|internal|expired|notverifiedexception|accountsuspended",
    re.IGNORECASE,
)

# These speak of our host or our settings, whatever their code: no message is lost
# for a fault that it has no part in.
OUR_FAULT = (
    smtplib.SMTPConnectError,
    smtplib.SMTPNotSupportedError,
    smtplib.SMTPHeloError,
    ImproperlyConfigured,
    ImportError,
    MemoryError,
)
# What a message's own parts raise as it is put together, unless it is an OSError, too.
ITS_OWN_FAULT = (ValueError, TypeError, MessageError)
# By name, since anymail need not be installed.
REFUSED_BY_PROVIDER = {"AnymailRecipientsRefused"}


class NotTaken(Exception):
    """The delivery backend reported no error and no message sent."""


class RecipientRefused(smtplib.SMTPResponseException):
    """What the server said to one recipient of several."""


def classify(error: Exception) -> Meaning:
    """Whether a message, or a recipient of it, that met this error is tried again or has failed.

    Failed: SMTP 5xx, HTTP 4xx (but for 401 to 405, 408, 409, 425, 429), an HTTP answer that cannot
    be understood though it says that all went well, and the ``ValueError``, ``TypeError`` or
    ``MessageError`` of a message that cannot be put together. Retried: all else, what nobody knows
    included; with 421, 454, a refused login, 429 or a provider's "throttled" the mailer is paused,
    too. ``RecipientRefused`` is asked about for each recipient of its own.
    """
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        each = [classify(RecipientRefused(*said)) for said in error.recipients.values()]
        if "pause" in each:
            return "pause"
        # Where all were refused, one temporary refusal is enough for another try.
        return "retry" if "retry" in each or not each else "fail"
    code = getattr(error, "smtp_code", None)
    # A wrong password a thousand times over may lock the account.
    if code in PAUSE_CODES or isinstance(error, smtplib.SMTPAuthenticationError):
        return "pause"
    if isinstance(error, OUR_FAULT):
        return "retry"
    if code == TOO_MUCH and MAILBOX_FULL.match(_text(getattr(error, "smtp_error", ""))):
        return "retry"
    if isinstance(code, int):
        to_one = isinstance(error, RecipientRefused)
        later = LOGIN_CODES | {TOO_MANY} if to_one else LOGIN_CODES
        return "fail" if code >= 500 and code not in later else "retry"
    if isinstance(error.__cause__, smtplib.SMTPException):
        return classify(error.__cause__)
    return _of_provider(error) or ("fail" if _is_of_the_message(error) else "retry")


def meaning_of(error: Exception) -> Meaning:
    """What the project's classifier (``MAIL_CLASSIFIER``) says; where that makes no sense, which is
    logged, the email is retried: what others have got of it must not be forgotten over that."""
    name = mail_conf["CLASSIFIER"]
    said = ""
    with capture() as asked:
        given: Meaning = import_string(name)(error)
        if given in MEANINGS:
            return given
        said = f"{given!r:.80}"
    if asked.error is not None:
        said = f"{type(asked.error).__name__}: {message_of(asked.error)}"
    logger.error("MAIL_CLASSIFIER: %s() must return one of %s, not %s", name, MEANINGS, said)
    return "retry"


def explain(error: Exception) -> str:
    """The error in one line, with the server's code and text as text."""
    name = type(error).__name__
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        said = [f"{who}: {code} {_text(text)}" for who, (code, text) in error.recipients.items()]
        return f"{name}: {'; '.join(said)}"
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{name}: {error.smtp_code} {_text(error.smtp_error)}"
    return f"{name}: {message_of(error)}"


def code_and_text(error: Exception) -> tuple[int | None, str]:
    """What the server said, as far as an error tells."""
    if isinstance(error, smtplib.SMTPResponseException):
        return error.smtp_code, _text(error.smtp_error)
    return status_of(error), explain(error)


def _of_provider(error: Exception) -> Meaning | None:
    """What an answer by HTTP says, if there was one."""
    # Amazon's name for what went wrong.
    found = [_in_answer(one, "Error", "Code") for one in _and_its_causes(error)]
    word = next((word for word in found if isinstance(word, str)), "")
    if TOO_FAST.search(word):
        return "pause"
    if LATER.search(word):
        return "retry"
    status = status_of(error)
    if status is None:
        return None
    if status == 429:
        return "pause"
    if status in HTTP_OURS or status in HTTP_LATER:
        return "retry"
    # After a 2xx it has most likely gone out: no second one for an answer that we cannot read.
    return "fail" if status // 100 in {2, 4} else "retry"


def _is_of_the_message(error: Exception) -> bool:
    if REFUSED_BY_PROVIDER & {kind.__name__ for kind in type(error).__mro__}:
        return True
    # A bare LookupError is an encoding that nobody knows.
    if type(error) is LookupError:
        return True
    is_of_the_network = any(isinstance(one, OSError) for one in _and_its_causes(error))
    return isinstance(error, ITS_OWN_FAULT) and not is_of_the_network


def status_of(error: BaseException) -> int | None:
    """The status of the HTTP answer that an error, or a cause of it, tells of."""
    for one in _and_its_causes(error):
        given = [getattr(one, name, None) for name in STATUS_ATTRIBUTES]
        given += [getattr(getattr(one, "response", None), "status_code", None)]
        given += [_in_answer(one, "ResponseMetadata", "HTTPStatusCode")]
        for status in given:
            if isinstance(status, int) and status in HTTP_STATUSES:
                return int(status)
    return None


def _and_its_causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that it was raised from."""
    one: BaseException | None = error
    for _ in range(CAUSES_MAX):
        if one is None:
            return
        yield one
        one = one.__cause__


def _in_answer(error: BaseException, part: str, name: str) -> Any:
    """botocore gives what it was answered as a dict."""
    answer = getattr(error, "response", None)
    found = answer.get(part) if isinstance(answer, Mapping) else None
    return found.get(name) if isinstance(found, Mapping) else None


def _text(said: bytes | str) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said
