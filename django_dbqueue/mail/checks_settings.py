"""System checks: the settings of queued mail make sense, each for itself and together."""

from collections.abc import Callable, Iterable, Iterator
from email.utils import parseaddr
from smtplib import SMTPException
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.utils.module_loading import import_string

from ..exceptions import shown
from ..fields import check_name
from ..guard import capture, message_of
from .checks import delivering_entries
from .conf import DEFAULT, TIME_TO_RUN, mail_conf, mailers_configured
from .limits import rates_of
from .outcomes import MEANINGS

IN_DOUBT = ("retry", "hold")
QUEUES = ("QUEUE", "URGENT_QUEUE")
# With less, no mail would be taken, all of it would fail, or a server would be left no time.
LEAST = {
    "TIMEOUT": 0.1,
    "RETRY_FIRST": 0,
    "RETRY_FACTOR": 1,
    "RETRY_CAP": 0,
    "MAX_ATTEMPTS": 1,
    "IN_DOUBT_REPEATS": 0,
    "PAUSE": 0,
    "ADMIN_REPORTS": 0,
    "MAX_BYTES": 1,
    "CONNECTION_MAX_MESSAGES": 1,
    "CONNECTION_MAX_AGE": 0,
}
STAGING = ("ALLOWED_DOMAINS", "OVERRIDE_RECIPIENTS")


def check_settings(**_: Any) -> list[CheckMessage]:
    """Errors that would else show when the first mail is sent, or never."""
    found: list[CheckMessage] = []
    for check in CHECKS:
        try:
            found += check()
        except ImproperlyConfigured:
            continue  # of the wrong type: the core's check says so
    return found


def check_for_production(**_: Any) -> list[CheckMessage]:
    """Warnings about what is meant for staging; with ``check --deploy`` only."""
    return [
        checks.Warning(
            f"DBQUEUE['MAIL_{name}'] is set: not everybody gets the mail that is to them.",
            hint="Leave it out where real people are to get mail.",
            id="dbqueue_mail.W001",
        )
        for name in STAGING
        if mail_conf[name]
    ]


def _classifier() -> Iterator[CheckMessage]:
    path = mail_conf["CLASSIFIER"]
    try:
        problem = _classifier_problem(import_string(path))
    except ImportError as error:
        problem = f"cannot import {path!r}: {error}"
    if problem:
        yield Error(
            f"DBQUEUE['MAIL_CLASSIFIER']: {problem}.",
            hint="Name a function from an exception to 'retry', 'fail' or 'pause'.",
            id="dbqueue_mail.E004",
        )


def _classifier_problem(classifier: Any) -> str:
    """Ask it for one error; what it says to others is caught when it comes to it."""
    said: Any = None
    with capture() as asked:
        said = classifier(SMTPException("asked by a system check"))
    if asked.error is not None:
        return f"it cannot be called with an exception: {message_of(asked.error)}"
    return "" if said in MEANINGS else f"it said {shown(said)} of an exception"


def _in_doubt() -> Iterator[CheckMessage]:
    given = mail_conf["IN_DOUBT"]
    if given not in IN_DOUBT:
        yield Error(
            f"DBQUEUE['MAIL_IN_DOUBT'] must be 'retry' or 'hold', not {given!r}.",
            hint="'retry' may send a mail twice, 'hold' keeps it for a person.",
            id="dbqueue_mail.E005",
        )


def _limits() -> Iterator[CheckMessage]:
    for mailer, given in mail_conf["LIMITS"].items():
        try:
            rates_of(given, f"DBQUEUE['MAIL_LIMITS'][{mailer!r}]")
        except ValueError as error:
            hint = "Give recipients by period, as {'second': 14, 'day': 50_000}."
            yield Error(f"{error}.", hint=hint, id="dbqueue_mail.E006")
    yield from _unknown_mailers("LIMITS", "dbqueue_mail.E007")


def _message_ids() -> Iterator[CheckMessage]:
    yield from _unknown_mailers("NO_MESSAGE_ID", "dbqueue_mail.E014")


def _unknown_mailers(name: str, check_id: str) -> Iterator[CheckMessage]:
    known = delivering_entries() if mailers_configured() else {DEFAULT}
    for mailer in mail_conf[name]:
        if mailer not in known:
            names = ", ".join(sorted(known))
            yield Error(
                f"DBQUEUE['MAIL_{name}'] names the mailer {mailer!r}, by which none goes out.",
                hint=f"Mail goes out by {names}; without MAILERS, by {DEFAULT!r} alone.",
                id=check_id,
            )


def _domains() -> Iterator[CheckMessage]:
    for domain in _wrong("ALLOWED_DOMAINS", _is_domain):
        yield Error(
            f"DBQUEUE['MAIL_ALLOWED_DOMAINS']: {domain!r} is no domain.",
            hint="Write 'example.org', without @, * or a dot at the beginning; what is below it is "
            "allowed too.",
            id="dbqueue_mail.E008",
        )


def _recipients() -> Iterator[CheckMessage]:
    for address in _wrong("OVERRIDE_RECIPIENTS", _is_address):
        yield Error(
            f"DBQUEUE['MAIL_OVERRIDE_RECIPIENTS']: {address!r} is no address.",
            hint="Write 'someone@example.org'.",
            id="dbqueue_mail.E009",
        )


def _retention() -> Iterator[CheckMessage]:
    bodies, rows = mail_conf["KEEP_BODIES"], mail_conf["KEEP_ROWS"]
    for name, seconds in (("BODIES", bodies), ("ROWS", rows)):
        if seconds < 0:
            yield Error(
                f"DBQUEUE['MAIL_KEEP_{name}'] must be at least 0 seconds, not {seconds:g}.",
                hint="0 keeps them for good.",
                id="dbqueue_mail.E010",
            )
    if 0 < rows < bodies:
        yield Error(
            f"DBQUEUE['MAIL_KEEP_BODIES'] ({bodies:g} s) is longer than DBQUEUE['MAIL_KEEP_ROWS'] "
            f"({rows:g} s): a message goes with its row.",
            hint="Lower the one, raise the other, or set MAIL_KEEP_BODIES to 0.",
            id="dbqueue_mail.E011",
        )


def _numbers() -> Iterator[CheckMessage]:
    for name, least in LEAST.items():
        given = mail_conf[name]
        if given is not None and given < least:
            yield Error(
                f"DBQUEUE['MAIL_{name}'] must be at least {least:g}, not {given:g}.",
                hint=f"Leave it out for the usual {mail_conf.defaults[name]:g}.",
                id="dbqueue_mail.E012",
            )


def _queues() -> Iterator[CheckMessage]:
    for name in QUEUES:
        try:
            check_name(mail_conf[name], f"MAIL_{name}")
        except ValidationError as error:
            yield Error(
                f"DBQUEUE: {error.messages[0]}.",
                hint=f"Leave it out for the usual {mail_conf.defaults[name]!r}.",
                id="dbqueue_mail.E013",
            )


def _final_timeout() -> Iterator[CheckMessage]:
    seconds = mail_conf["FINAL_TIMEOUT"]
    if not 0 < seconds < TIME_TO_RUN:
        yield Error(
            f"DBQUEUE['MAIL_FINAL_TIMEOUT'] must be more than 0 and less than {TIME_TO_RUN} "
            f"seconds, the time that a mail may take, not {seconds:g}.",
            hint="240 leaves a minute for the rest of the conversation.",
            id="dbqueue_mail.E015",
        )


CHECKS: tuple[Callable[[], Iterable[CheckMessage]], ...] = (
    *(_classifier, _in_doubt, _limits, _domains, _recipients, _retention, _numbers, _queues),
    *(_message_ids, _final_timeout),
)


def _wrong(name: str, is_right: Callable[[str], bool]) -> Iterator[Any]:
    for value in mail_conf[name]:
        if not isinstance(value, str) or not is_right(value):
            yield value


def _is_domain(value: str) -> bool:
    labels = value.split(".")
    return all(labels) and not any(one in "@*,;<>\"'" or one.isspace() for one in value)


def _is_address(value: str) -> bool:
    local, _, domain = parseaddr(value)[1].rpartition("@")
    return bool(local) and value.isprintable() and _is_domain(domain)
