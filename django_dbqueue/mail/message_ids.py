"""The Message-ID that a mail was given when it was queued, and the mailers that want none."""

from typing import Any

from django.core.mail import EmailMessage, make_msgid
from django.core.mail.utils import DNS_NAME

from .conf import mail_conf, mailer_of

HEADER = "Message-ID"
# Mailjet answers 400 (send-0011) to it; MailerSend has headers of one's own in its dearest plan
# alone. Their backends, and those made of them.
REFUSED_BY = ("anymail.backends.mailjet", "anymail.backends.mailersend")


class GeneratedMessageID(str):
    """One that the project has not set by itself."""

    __slots__ = ()


def message_id_of(message: EmailMessage) -> str:
    """The message's own, else a new one."""
    return str(own_message_id(message) or make_msgid(domain=str(DNS_NAME)))


def own_message_id(message: EmailMessage) -> Any:
    found = [value for name, value in message.extra_headers.items() if _is_it(name)]
    return found[0] if found else None


def withhold(message: EmailMessage, backend: Any, using: str) -> None:
    """Take out our Message-ID, but none of the project's own, where a mailer refuses it."""
    if not _is_unwanted(backend, using):
        return
    for name in [one for one in message.extra_headers if _is_it(one)]:
        if isinstance(message.extra_headers[name], GeneratedMessageID):
            del message.extra_headers[name]


def _is_unwanted(backend: Any, using: str) -> bool:
    if mailer_of(using) in mail_conf["NO_MESSAGE_ID"]:
        return True
    return any(kind.__module__ in REFUSED_BY for kind in type(backend).__mro__)


def _is_it(name: str) -> bool:
    return name.lower() == HEADER.lower()
