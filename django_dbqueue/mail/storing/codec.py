"""A Django mail message to JSON text and back: readable, versioned, without pickle."""

import json
from collections.abc import Mapping
from datetime import datetime
from email.headerregistry import Address
from email.message import Message
from email.utils import format_datetime
from typing import Any

import django
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.core.mail.message import EmailAlternative, EmailAttachment
from django.utils.encoding import force_str
from django.utils.functional import Promise

from ..deliveries import has_several
from ..headers import without_options
from . import parts
from .parts import check_encodable, check_line

VERSION = 1
ADDRESS_LISTS = ("to", "cc", "bcc", "reply_to")
# Django 5.2 lets a message set them.
SUBTYPES = {"mixed_subtype": "mixed", "alternative_subtype": "alternative"}
KNOWN = {
    *ADDRESS_LISTS,
    *SUBTYPES,
    *("subject", "body", "from_email", "attachments", "alternatives", "extra_headers"),
    *("connection", "content_subtype", "encoding", "sent_using"),
    "anymail_status",  # what an earlier sending left behind
}
BUILDERS = (
    *("message", "recipients", "_add_bodies", "_add_attachments", "_add_attachment"),
    *("_create_message", "_create_attachments", "_create_attachment"),
    *("_create_alternatives", "_create_mime_attachment"),
    *("_set_list_header_if_not_empty", "_idna_encode_address_header_domains"),
)


def encode(message: EmailMessage) -> str:
    """Return the whole message as JSON text.

    What cannot be stored without loss (content that is neither text nor bytes, a class that builds
    its MIME by itself) and a line break in a header or an address raise ``ValueError`` naming
    the part. Lazy translations become text in the language that is active now.
    """
    _refuse_own_builders(message)
    charset = parts.charset_name(message.encoding)
    subtypes = {name: getattr(message, name, usual) for name, usual in SUBTYPES.items()}
    restored = getattr(message.message, "subtypes", {})  # by _restore_subtypes
    stored: dict[str, Any] = {
        "version": VERSION,
        "subject": _own_or_template(message, "subject"),
        "from_email": _own_or_template(message, "from_email"),
        **{name: _addresses(getattr(message, name), name) for name in ADDRESS_LISTS},
        "headers": _headers(without_options(message.extra_headers)),
        "body": force_str(message.body or "", encoding=charset, errors="surrogateescape"),
        "subtype": _line(message.content_subtype, "content_subtype"),
        "encoding": parts.encode_charset(message.encoding),
        "attachments": [
            _attachment(item, f"attachments[{i}]") for i, item in enumerate(message.attachments)
        ],
    }
    if isinstance(message, EmailMultiAlternatives):
        stored["alternatives"] = [
            parts.encode_content(content, kind, f"alternatives[{i}]", fallback=False)
            for i, (content, kind) in enumerate(message.alternatives)
        ]
    for name, subtype in (subtypes | restored).items():
        if subtype != SUBTYPES[name]:
            stored[name] = _line(subtype, name)
    known = KNOWN | {"message"} if restored else KNOWN
    stored |= parts.encode_attributes(message, known)
    return to_json(stored)


def decode(text: str) -> EmailMessage:
    """Return the message that ``encode`` stored, under this or another version of Django.

    Text that no version of ours wrote raises ``ValueError``.
    """
    stored = json.loads(text)
    version = stored.get("version") if isinstance(stored, dict) else None
    if version != VERSION:
        raise ValueError(f"message: version {version!r} is not one that this release can read")
    multi = "alternatives" in stored
    message = (EmailMultiAlternatives if multi else EmailMessage)(
        stored["subject"],
        stored["body"],
        stored["from_email"],
        headers=dict(stored["headers"]),
        **{name: stored[name] for name in ADDRESS_LISTS},
    )
    message.from_email = stored["from_email"]  # of None, Django makes its default
    message.content_subtype = stored["subtype"]
    message.encoding = parts.decode_charset(stored["encoding"])
    message.attachments = [
        parts.decode_mime(item)
        if "policy" in item
        else EmailAttachment(item["name"], parts.decode_content(item), item["type"])
        for item in stored["attachments"]
    ]
    if isinstance(message, EmailMultiAlternatives):
        message.alternatives = [
            EmailAlternative(parts.decode_content(item), item["type"])
            for item in stored["alternatives"]
        ]
    _restore_subtypes(message, {name: stored[name] for name in SUBTYPES if name in stored})
    for name, value in parts.decode_attributes(stored):
        if name not in KNOWN and not name.startswith("_"):
            setattr(message, name, value)
    return message


def to_json(stored: dict[str, Any]) -> str:
    """What is stored, as text that every database takes."""
    text = json.dumps(stored, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: no database takes it, an escape they all do
        return json.dumps(stored)
    return text


def _line(value: Any, part: str) -> str:
    if value is None or isinstance(value, (Mapping, list, tuple, set)):
        raise ValueError(f"{part} must be text, not {value!r}")
    return check_line(force_str(value), part)


def _own_or_template(message: EmailMessage, name: str) -> str | None:
    """None where the provider's template has it."""
    value = getattr(message, name)
    if value is None and getattr(message, "template_id", None):
        return None
    return _line(value, name)


def _addresses(values: Any, part: str) -> list[str]:
    """One address in each text, as Django's SMTP backend wants them; other backends would send to
    each of several, and not all of them may have the message. Nothing is sent to a Reply-To."""
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"{part} must be a list of addresses, not {values!r}")
    found = []
    for i, value in enumerate(values):
        if not isinstance(value, (str, Promise, Address)):
            raise ValueError(f"{part}[{i}] must be an address in text, not {value!r}")
        address = check_encodable(check_line(str(value), f"{part}[{i}]"), f"{part}[{i}]")
        if part != "reply_to" and has_several(address):
            raise ValueError(f"{part}[{i}] must be one address, not several: {address!r}")
        found.append(address)
    return found


def _headers(headers: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for name, value in headers.items():
        if name.lower() == "bcc":
            raise ValueError("headers['Bcc'] would show the blind copies; use the bcc argument")
        check_line(name, f"the name of headers[{name!r}]")
        is_time = isinstance(value, datetime)
        text = format_datetime(value) if is_time else _line(value, f"headers[{name!r}]")
        found.append((name, text))
    return found


def _attachment(item: Any, part: str) -> dict[str, Any]:
    if isinstance(item, Message):
        return parts.encode_mime(item)
    try:
        name, content, kind = item
    except (TypeError, ValueError):
        raise ValueError(f"{part} must be (name, content, mimetype), not {item!r:.80}") from None
    if name is not None:
        name = _line(name, f"the name of {part}")
    return {"name": name, **parts.encode_content(content, kind, part)}


def _refuse_own_builders(message: EmailMessage) -> None:
    # A subclass that signs or nests in its own way would be delivered without that.
    kind = type(message)
    for name in BUILDERS:
        own = getattr(kind, name, None)
        known = (getattr(EmailMultiAlternatives, name, None), getattr(EmailMessage, name, None))
        if own not in known:
            raise ValueError(
                f"{kind.__name__}.{name}() builds the message in a way that cannot be stored"
            )


def _restore_subtypes(message: EmailMessage, subtypes: dict[str, str]) -> None:
    if django.VERSION < (6, 0):
        vars(message).update(subtypes)
        return
    if not subtypes:
        return
    build = message.message

    def with_subtypes(**options: Any) -> Any:
        """As Django 5.2 did; later versions refuse to build a message that says so itself."""
        made: Any = build(**options)
        body = made.get_payload(0) if message.attachments and made.is_multipart() else made
        if "mixed_subtype" in subtypes and message.attachments:
            made.set_type(f"multipart/{subtypes['mixed_subtype']}")
        if "alternative_subtype" in subtypes and getattr(message, "alternatives", None):
            body.set_type(f"multipart/{subtypes['alternative_subtype']}")
        return made

    with_subtypes.subtypes = subtypes  # type: ignore[attr-defined]  # to store it once more
    message.message = with_subtypes  # type: ignore[method-assign]
