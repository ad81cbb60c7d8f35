"""Reading a stored message, whatever is stored there."""

import re
from datetime import datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

from django.core.mail import EmailMessage
from django.utils import timezone

from ..outcomes import explain

if TYPE_CHECKING:
    from ..models.email import EmailFields


def read(email: "EmailFields") -> EmailMessage:
    """The message of a mail; ``ValueError`` says in one line why there is none to be had."""
    try:
        return email.to_message()
    except ValueError:
        raise
    except Exception as error:  # why: a hand may have written anything there
        raise ValueError(f"it cannot be read: {explain(error)}") from error


def read_eml(email: Any) -> bytes:
    """The message as a file; ``ValueError`` as from ``read``."""
    message = read(email)
    names = {name.lower() for name in message.extra_headers}
    if "date" not in names and isinstance(email.created_at, datetime):
        # Else it would be that of this moment, another one with every look.
        message.extra_headers["Date"] = format_datetime(_aware(email.created_at))
    try:
        data = message.message().as_bytes()
    except Exception as error:  # why: so would it when it is delivered, which is where it matters
        raise ValueError(f"it cannot be made: {explain(error)}") from error
    return re.sub(rb"\r?\n", b"\r\n", data)


def _aware(moment: datetime) -> datetime:
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)
