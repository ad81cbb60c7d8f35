"""System checks: somebody delivers the queued mail, and it is not the queue itself; and each
setting makes sense, by itself and next to the others."""

from collections.abc import Callable, Iterable, Iterator
from email.utils import parseaddr
from functools import partial
from smtplib import SMTPException
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.utils.module_loading import import_string

from ..exceptions import shown
from ..fields import check_name
from ..guard import capture, message_of
from ..lifecycle.rates import rates_of
from .conf import BOUNDS, DEFAULT, TIME_TO_RUN, mail_conf, mailers_configured
from .outcomes import MEANINGS

SMTP = "django.core.mail.backends.smtp.EmailBackend"
IN_DOUBT = ("retry", "hold")
QUEUES = ("QUEUE", "URGENT_QUEUE")
OF_THEIR_OWN = ("KEEP_BODIES", "KEEP_ROWS")  # judged by checks of their own
STAGING = ("ALLOWED_DOMAINS", "OVERRIDE_RECIPIENTS")


def check_delivery(**_: Any) -> list[CheckMessage]:
    """Errors when queued mail would be queued again, or when nobody is there to deliver it."""
    if not mailers_configured():
        return _judge(mail_conf["DELIVERY_BACKEND"], "DBQUEUE['MAIL_DELIVERY_BACKEND']")
    entries: dict[str, Any] = dict(settings.MAILERS)
    wanted: dict[str, str | None] = {}
    for alias, entry in entries.items():
        if _queues_mail(entry.get("BACKEND", SMTP)):
            using = entry.get("OPTIONS", {}).get("using") or mail_conf["USING"]
            wanted[f"MAILERS[{alias!r}]"] = using
    if mail_conf["USING"]:
        wanted["DBQUEUE['MAIL_USING']"] = mail_conf["USING"]
    found: list[CheckMessage] = []
    for source, name in wanted.items():
        if name is not None and name in entries:
            found += _judge(entries[name].get("BACKEND", SMTP), f"{source}: {name!r}")
            continue
        found.append(
            Error(
                f"{source}: 'using' must name the entry of MAILERS that delivers, not {name!r}.",
                hint='Set OPTIONS = {"using": "smtp"}, or DBQUEUE["MAIL_USING"].',
                id="dbqueue_mail.E002",
            )
        )
    return found


def _judge(path: str, source: str) -> list[CheckMessage]:
    queues = _queues_mail(path)
    if queues is None:
        return [Error(f"{source}: cannot import {path!r}.", id="dbqueue_mail.E003")]
    if not queues:
        return []
    return [
        Error(
            f"{source}: {path} queues mail; queued mail would be queued again for ever.",
            hint="Name the backend that delivers, as SMTP.",
            id="dbqueue_mail.E001",
        )
    ]


def _queues_mail(path: str) -> bool | None:
    """Whether a backend queues mail; None when it cannot be imported."""
    try:
        return bool(getattr(import_string(path), "queues_mail", False))
    except ImportError:
        return None


def check_settings(**_: Any) -> list[CheckMessage]:
    """Errors that would else show when the first message is sent, or never."""
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
    path, problem = mail_conf["CLASSIFIER"], ""
    said: Any = None
    try:
        classifier = import_string(path)
    except ImportError as error:
        problem = f"cannot import {path!r}: {error}"
    else:
        # For one error; what it says to others is caught when it comes to it.
        with capture() as asked:
            said = classifier(SMTPException("asked by a system check"))
        if asked.error is not None:
            problem = f"it cannot be called with an exception: {message_of(asked.error)}"
        elif said not in MEANINGS:
            problem = f"it said {shown(said)} of an exception"
    if problem:
        yield Error(
            f"DBQUEUE['MAIL_CLASSIFIER']: {problem}.",
            hint="Name a function from an exception to 'retry', 'fail' or 'pause'.",
            id="dbqueue_mail.E004",
        )


def _in_doubt() -> Iterator[CheckMessage]:
    given = mail_conf["IN_DOUBT"]
    if given not in IN_DOUBT:
        yield Error(
            f"DBQUEUE['MAIL_IN_DOUBT'] must be 'retry' or 'hold', not {given!r}.",
            hint="'retry' may send a message twice, 'hold' keeps it for a person.",
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


def _unknown_mailers(name: str, check_id: str) -> Iterator[CheckMessage]:
    known = {DEFAULT}
    if mailers_configured():
        entries: dict[str, Any] = dict(settings.MAILERS)
        known = {a for a, one in entries.items() if not _queues_mail(one.get("BACKEND", SMTP))}
    for mailer in mail_conf[name]:
        if mailer not in known:
            names = ", ".join(sorted(known))
            yield Error(
                f"DBQUEUE['MAIL_{name}'] names the mailer {mailer!r}, by which none goes out.",
                hint=f"Mail goes out by {names}; without MAILERS, by {DEFAULT!r} alone.",
                id=check_id,
            )


def _unfit(
    name: str, what: str, is_right: Callable[[str], bool], hint: str, check_id: str
) -> Iterator[CheckMessage]:
    for value in mail_conf[name]:
        if not isinstance(value, str) or not is_right(value):
            yield Error(f"DBQUEUE['MAIL_{name}']: {value!r} is no {what}.", hint=hint, id=check_id)


def _retention() -> Iterator[CheckMessage]:
    bodies, rows = mail_conf["KEEP_BODIES"], mail_conf["KEEP_ROWS"]
    for name, seconds in (("BODIES", bodies), ("ROWS", rows)):
        try:
            BOUNDS[f"KEEP_{name}"].check(seconds)
        except ValueError as error:
            yield Error(
                f"DBQUEUE['MAIL_KEEP_{name}'] {error}.",
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
    for name, bounds in BOUNDS.items():
        given = mail_conf[name]
        if given is None or name in OF_THEIR_OWN:
            continue
        try:
            bounds.check(given)
        except ValueError as error:
            yield Error(
                f"DBQUEUE['MAIL_{name}'] {error}.",
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
            f"seconds, the time that an email may take, not {seconds:g}.",
            hint="240 leaves a minute for the rest of the conversation.",
            id="dbqueue_mail.E015",
        )


def _is_domain(value: str) -> bool:
    labels = value.split(".")
    return all(labels) and not any(one in "@*,;<>\"'" or one.isspace() for one in value)


def _is_address(value: str) -> bool:
    local, _, domain = parseaddr(value)[1].rpartition("@")
    return bool(local) and value.isprintable() and _is_domain(domain)


DOMAIN_HINT = (
    "Write 'example.org', without @, * or a dot at the beginning; what is below it is allowed too."
)
CHECKS: tuple[Callable[[], Iterable[CheckMessage]], ...] = (
    *(_classifier, _in_doubt, _limits),
    partial(_unfit, "ALLOWED_DOMAINS", "domain", _is_domain, DOMAIN_HINT, "dbqueue_mail.E008"),
    partial(
        _unfit,
        *("OVERRIDE_RECIPIENTS", "address", _is_address),
        *("Write 'someone@example.org'.", "dbqueue_mail.E009"),
    ),
    *(_retention, _numbers, _queues),
    partial(_unknown_mailers, "NO_MESSAGE_ID", "dbqueue_mail.E014"),
    _final_timeout,
)
