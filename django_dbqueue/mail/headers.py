"""Headers of a message that are ours: how it wants to be queued, and the Message-ID it is given.

The first may be given as arguments instead; they are read and never delivered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage, make_msgid
from django.core.mail.utils import DNS_NAME
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from ..fields import check_name
from .conf import mail_conf, mailer_of

PREFIX = "x-dbqueue-"
OPTIONS = ("expires_at", "priority", "queue", "scheduled_time")
PRIORITY_MAX = 2**32 - 1
PRIORITIES = {"urgent": 0, "high": 512, "normal": 1024, "low": 4096}

MESSAGE_ID = "Message-ID"
# Mailjet answers 400 (send-0011) to it; MailerSend has custom headers in its most expensive plan
# alone. Their backends, and those made of them.
REFUSED_BY = ("anymail.backends.mailjet", "anymail.backends.mailersend")

Priority = int | str


@dataclass(frozen=True)
class QueueingOptions:
    """``priority`` is a number or a word; times are aware, or, without ``USE_TZ``, naive.

    What is urgent goes to a queue of its own (``MAIL_URGENT_QUEUE``) unless ``queue`` says other.
    """

    priority: Priority | None = None
    queue: str | None = None
    scheduled_time: datetime | None = None
    expires_at: datetime | None = None

    def columns(self) -> dict[str, Any]:
        """The columns of the job; ``ValueError``, of a queue's name ``ValidationError``, names the
        option that makes no sense."""
        usual = mail_conf["URGENT_QUEUE" if self.priority == "urgent" else "QUEUE"]
        if self.queue:
            check_name(self.queue, "queue")
        found: dict[str, Any] = {
            "queue": str(self.queue or usual),
            "expires_at": _time("expires_at", self),
        }
        if self.priority is not None:
            given = self.priority
            number = PRIORITIES.get(given) if isinstance(given, str) else given
            is_int = isinstance(number, int) and not isinstance(number, bool)
            if number is None or not is_int or not 0 <= number <= PRIORITY_MAX:
                words = f"0 to {PRIORITY_MAX} or one of {', '.join(PRIORITIES)}"
                raise ValueError(f"priority must be {words}, not {given!r:.80}")
            found["priority"] = number
        found["retry_at"] = _time("scheduled_time", self)
        if self.scheduled_time and self.expires_at and self.expires_at <= self.scheduled_time:
            raise ValueError("expires_at must be after scheduled_time")
        return found


def options_in(message: EmailMessage) -> dict[str, Any]:
    """Those that headers of a message name; ``ValueError`` names a header that makes no sense."""
    found: dict[str, Any] = {}
    for name, value in message.extra_headers.items():
        if not is_option(name):
            continue
        option = name.lower().removeprefix(PREFIX).replace("-", "_")
        part, text = f"headers[{name!r}]", str(value)
        if option not in OPTIONS:
            known = ", ".join("X-DBQueue-" + one.replace("_", "-").title() for one in OPTIONS)
            raise ValueError(f"{part} means nothing; known are {known}")
        if option == "queue":
            found[option] = text.strip()
        elif option == "priority":
            word = text.strip().lower()
            if word not in PRIORITIES and not word.isdecimal():
                words = f"0 to {PRIORITY_MAX} or one of {', '.join(PRIORITIES)}"
                raise ValueError(f"{part} must be {words}: {text!r}")
            found[option] = word if word in PRIORITIES else int(word)
        else:
            found[option] = _read_time(part, text)
    return found


def is_option(header: str) -> bool:
    """Whether a header is for us, and so for nobody else."""
    return header.lower().startswith(PREFIX)


def without_options(headers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if not is_option(name)}


def _time(name: str, options: QueueingOptions) -> datetime | None:
    value = getattr(options, name)
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise ValueError(f"{name} must be a datetime, not {value!r:.80}")
    if timezone.is_naive(value) and settings.USE_TZ:
        raise ValueError(f"{name} must have a time zone, as the project has USE_TZ: {value}")
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{name} must be of the years 1 to 9999 in UTC: {value}") from None
    return value


def _read_time(part: str, text: str) -> datetime:
    try:
        moment = parse_datetime(text.strip())
    except ValueError:
        moment = None
    if moment is None:
        raise ValueError(f"{part} must be a time as 2030-01-31T08:00:00+01:00, not {text!r:.80}")
    if timezone.is_naive(moment):
        raise ValueError(f"{part} must have a time zone, as 2030-01-31T08:00:00+01:00: {text!r}")
    return moment if settings.USE_TZ else timezone.make_naive(moment)


class GeneratedMessageID(str):
    """One that the project has not set by itself."""

    __slots__ = ()


def message_id_of(message: EmailMessage) -> str:
    """The message's own, else a new one."""
    return str(own_message_id(message) or make_msgid(domain=str(DNS_NAME)))


def own_message_id(message: EmailMessage) -> Any:
    found = [value for name, value in message.extra_headers.items() if _is_message_id(name)]
    return found[0] if found else None


def withhold_message_id(message: EmailMessage, backend: Any, using: str) -> None:
    """Take out our Message-ID, but none of the project's own, where a mailer refuses it."""
    by_package = any(kind.__module__ in REFUSED_BY for kind in type(backend).__mro__)
    if not by_package and mailer_of(using) not in mail_conf["NO_MESSAGE_ID"]:
        return
    for name in [one for one in message.extra_headers if _is_message_id(one)]:
        if isinstance(message.extra_headers[name], GeneratedMessageID):
            del message.extra_headers[name]


def _is_message_id(name: str) -> bool:
    return name.lower() == MESSAGE_ID.lower()
