"""The parts of a stored message, to JSON and back: contents, ready MIME parts, charsets, and the
attributes that backends read and Django has not."""

import base64
import logging
import re
import sys
from collections.abc import Collection, Iterator
from datetime import date, datetime
from email import message_from_bytes, policy
from email.charset import Charset
from email.generator import BytesGenerator
from email.message import Message, MIMEPart
from email.mime.base import MIMEBase
from email.policy import Compat32, Policy
from io import BytesIO
from typing import Any

import django
from django.conf import settings
from django.core.mail import DEFAULT_ATTACHMENT_MIME_TYPE, EmailMessage, EmailMultiAlternatives
from django.utils.functional import Promise

from ..conf import mail_conf

logger = logging.getLogger("django_dbqueue")

# By package; more than one may read the same. django-ses and django-amazon-ses read headers alone.
READ_BY_BACKENDS = {
    # django-anymail
    *("envelope_sender", "esp_extra", "merge_data", "merge_global_data", "merge_headers"),
    *("merge_metadata", "metadata", "send_at", "tags", "template_id"),
    *("track_clicks", "track_opens"),
    # django-sendgrid-v5
    *("asm", "categories", "custom_args", "dynamic_template_data", "ip_pool_name"),
    *("make_private", "personalizations", "reply_to_list", "substitutions"),
    # sparkpost
    *("campaign", "substitution_data", "template"),
    # postmarker, postmark-python
    *("message_stream", "tag"),
    # django-mailjet
    *("custom_id", "deduplicate_campaign", "event_payload", "recipient_vars", "template_vars"),
    *("template_error_deliver", "template_error_reporting", "template_language"),
    *("track_click", "track_open"),
    # django-getresponse
    "tag_id",
}
LEFT_OUT = (
    "messages of %s are queued without their attributes %s; "
    "name those that your mail backend reads in DBQUEUE['MAIL_ATTRIBUTES']"
)
MISSING = object()

# The names of classes of which LEFT_OUT was logged.
told: set[str] = set()
PLAIN = (str, bool, int, float, dict, list, tuple, date, Promise)

LINE_BREAK = re.compile(r"[\r\n\0]")


class StoredPart(MIMEBase, MIMEPart):
    """A MIME part read back, with the base class that Django 5.2 asks for and that of 6.0."""

    def __init__(self, policy: Policy = policy.compat32) -> None:
        # MIMEBase would add headers of its own.
        Message.__init__(self, policy=policy)


def check_line(value: str, part: str) -> str:
    """Return the value if it can be part of a header, else raise ``ValueError`` naming the part."""
    if LINE_BREAK.search(value):
        raise ValueError(f"{part} must not contain line breaks or NUL: {value!r}")
    return value


def check_encodable(value: str, part: str) -> str:
    """Return the value if there are bytes for it, which half a surrogate pair has not."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{part} must not contain half a surrogate pair: {value!r}") from None
    return value


def encode_content(content: Any, kind: Any, part: str, fallback: bool = True) -> dict[str, str]:
    """Return a content and its type: text as it is, bytes in base64.

    Bytes of a text type are stored as text if they are UTF-8. Else, as Django does for an
    attachment, their type becomes application/octet-stream; without ``fallback`` they are refused.
    """
    if not isinstance(kind, (str, Promise)) or "/" not in str(kind):
        raise ValueError(f"{part} must have a MIME type, not {kind!r}")
    kind = check_line(str(kind), f"the MIME type of {part}")
    if isinstance(content, (str, Promise)):
        return {"type": kind, "text": str(content)}
    data = _bytes(content, part)
    if not kind.startswith("text/"):
        return {"type": kind, "base64": _base64(data)}
    try:
        return {"type": kind, "text": data.decode()}
    except UnicodeDecodeError:
        if not fallback:
            raise ValueError(f"{part} is {kind} but not UTF-8") from None
        return {"type": DEFAULT_ATTACHMENT_MIME_TYPE, "base64": _base64(data)}


def decode_content(item: dict[str, str]) -> str | bytes:
    """Return the text or the bytes that ``encode_content`` stored."""
    return item["text"] if "text" in item else base64.b64decode(item["base64"])


def encode_mime(part: Message) -> dict[str, str]:
    """Return a ready MIME part: its bytes and which of Python's two e-mail policies it follows."""
    kind = "compat32" if isinstance(part.policy, Compat32) else "default"
    return {"policy": kind, "base64": _base64(_serialise(part))}


def decode_mime(item: dict[str, str]) -> Message:
    """Return the MIME part that ``encode_mime`` stored."""
    kind: Policy = policy.compat32 if item["policy"] == "compat32" else policy.default
    data = base64.b64decode(item["base64"])
    return message_from_bytes(data, StoredPart, policy=kind)


def encode_charset(encoding: Any) -> Any:
    """Return a message's encoding: none, a name, or (Django 5.2) the settings of a ``Charset``."""
    if encoding is None or isinstance(encoding, str):
        return encoding
    if not isinstance(encoding, Charset):
        raise ValueError(f"encoding must be the name of a charset, not {encoding!r}")
    return [encoding.input_charset, encoding.header_encoding, encoding.body_encoding]


def decode_charset(stored: Any) -> Any:
    """Return the encoding; Django 6.0 and later take names only, so there a ``Charset`` is one."""
    if stored is None or isinstance(stored, str):
        return stored
    name, header_encoding, body_encoding = stored
    if django.VERSION >= (6, 0):
        return name
    charset = Charset(name)
    charset.header_encoding, charset.body_encoding = header_encoding, body_encoding
    return charset


def charset_name(encoding: Any) -> str:
    """Return the name of a message's encoding, the project's if it has none."""
    if isinstance(encoding, Charset):
        return str(encoding.input_charset)
    return str(encoding or settings.DEFAULT_CHARSET)


def encode_attributes(message: EmailMessage, known: Collection[str]) -> dict[str, Any]:
    """Return the attributes that delivering backends are known to read.

    Others that are not ``known`` are left out, and so is what is neither plain data nor, as a
    whole, a date; a log line says so once for each class.
    """
    extra, moments, unfit = {}, {}, []
    wanted = READ_BY_BACKENDS.union(mail_conf["ATTRIBUTES"]).difference(known)
    # What an AnymailMessage has until something else is set.
    unset = getattr(sys.modules.get("anymail.utils"), "UNSET", MISSING)
    for name in sorted(wanted):
        try:
            value = getattr(message, name, MISSING)
            if value is MISSING or value is unset:
                continue
            if isinstance(value, date):
                moments[name] = value.isoformat()
            else:
                extra[name] = _plain(value)
        except Exception:  # noqa: BLE001  # why: whatever a property of the project's raises
            unfit.append(name)
    _tell_left_out(message, wanted.union(known), unfit)
    return {"extra": extra, **({"moments": moments} if moments else {})}


def decode_attributes(stored: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that ``encode_attributes`` returned."""
    yield from stored["extra"].items()
    for name, text in stored.get("moments", {}).items():
        yield name, datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)


def _tell_left_out(message: EmailMessage, known: Collection[str], unfit: list[str]) -> None:
    """Its own, and plain data in the body of its class, as in ``tags = ["invoice"]`` there."""
    found = set(vars(message))
    for kind in type(message).__mro__:
        if not issubclass(EmailMultiAlternatives, kind):
            found.update(name for name, value in vars(kind).items() if isinstance(value, PLAIN))
    names = [name for name in found if name not in known and not name.startswith("_")]
    names += [f"{name} (not plain data)" for name in unfit]
    kind_name = f"{type(message).__module__}.{type(message).__qualname__}"
    if names and kind_name not in told:
        told.add(kind_name)
        logger.warning(LEFT_OUT, kind_name, ", ".join(sorted(names)))


def _plain(value: Any) -> Any:
    if isinstance(value, Promise):
        return str(value)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, (str, Promise)):
                raise TypeError(f"{type(key).__name__} is not the key of plain data")
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"{type(value).__name__} is not plain data")


def _bytes(content: Any, part: str) -> bytes:
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    if isinstance(content, EmailMessage):
        # As Django does on sending, so that what it writes in base64 has the line ends of mail.
        content = content.message(**({"policy": policy.SMTP} if django.VERSION >= (6, 0) else {}))
    if isinstance(content, Message):
        return _serialise(content)
    raise ValueError(f"{part} must hold text, bytes or a message, not {type(content).__name__}")


def _serialise(part: Message) -> bytes:
    # The older of Python's policies would garble what is not ASCII in headers of the newer.
    newer = (each.policy for each in part.walk() if not isinstance(each.policy, Compat32))
    own = next(newer, part.policy)
    # as_bytes() would put a ">" before lines that begin with "From ".
    buffer = BytesIO()
    BytesGenerator(buffer, mangle_from_=False, maxheaderlen=0, policy=own).flatten(part)
    return buffer.getvalue()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
