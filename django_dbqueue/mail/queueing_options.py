"""How a message wants to be queued: arguments, or headers that are read and never delivered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from ..fields import check_name
from .conf import mail_conf

PREFIX = "x-dbqueue-"
MOST = 2**32 - 1
PRIORITIES = {"urgent": 0, "high": 512, "normal": 1024, "low": 4096}

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
        wish that cannot be granted."""
        found: dict[str, Any] = {"queue": self._queue(), "expires_at": _time("expires_at", self)}
        if self.priority is not None:
            found["priority"] = _number(self.priority)
        found["retry_at"] = _time("scheduled_time", self)
        if self.scheduled_time and self.expires_at and self.expires_at <= self.scheduled_time:
            raise ValueError("expires_at must be after scheduled_time")
        return found

    def _queue(self) -> str:
        usual = mail_conf["URGENT_QUEUE" if self.priority == "urgent" else "QUEUE"]
        if self.queue:
            check_name(self.queue, "queue")
        return str(self.queue or usual)


def options_in(message: EmailMessage) -> dict[str, Any]:
    """Those that headers of a message name; ``ValueError`` names a header that makes no sense."""
    found: dict[str, Any] = {}
    for name, value in message.extra_headers.items():
        if is_option(name):
            wish = name.lower().removeprefix(PREFIX).replace("-", "_")
            if wish not in READERS:
                known = ", ".join(sorted(_header(one) for one in READERS))
                raise ValueError(f"headers[{name!r}] means nothing; known are {known}")
            found[wish] = READERS[wish](f"headers[{name!r}]", str(value))
    return found


def is_option(header: str) -> bool:
    """Whether a header is for us, and so for nobody else."""
    return header.lower().startswith(PREFIX)


def without_options(headers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if not is_option(name)}


def _number(priority: Priority) -> int:
    number = PRIORITIES.get(priority) if isinstance(priority, str) else priority
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MOST:
        words = ", ".join(PRIORITIES)
        raise ValueError(f"priority must be 0 to {MOST} or one of {words}, not {priority!r:.80}")
    return number


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


def _read_priority(part: str, text: str) -> Priority:
    word = text.strip().lower()
    if word not in PRIORITIES and not word.isdecimal():
        raise ValueError(f"{part} must be 0 to {MOST} or one of {', '.join(PRIORITIES)}: {text!r}")
    return word if word in PRIORITIES else int(word)


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


def _read_queue(_part: str, text: str) -> str:
    return text.strip()


READERS: dict[str, Callable[[str, str], Any]] = {
    "priority": _read_priority,
    "queue": _read_queue,
    "scheduled_time": _read_time,
    "expires_at": _read_time,
}


def _header(wish: str) -> str:
    return "X-DBQueue-" + wish.replace("_", "-").title()
