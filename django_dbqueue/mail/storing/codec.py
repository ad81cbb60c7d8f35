"""A Django mail message to JSON text and back: readable, versioned, without pickle."""

import json
from collections.abc import Iterable, Mapping
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
from ..queueing_options import without_options
from . import extras, parts
from .parts import check_encodable, check_line

VERSION = 1
ADDRESS_LISTS = ("to", "cc", "bcc", "reply_to")
DIVIDED = "mixed_subtype", "alternative_subtype"  # Django 5.2 lets a message set them
KNOWN = {
    *ADDRESS_LISTS,
    *DIVIDED,
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
    stored = {
        "version": VERSION,
        "subject": _own_or_template(message, "subject"),
        "from_email": _own_or_template(message, "from_email"),
        **{name: _addresses(getattr(message, name), name) for name in ADDRESS_LISTS},
        "headers": _headers(without_options(message.extra_headers)),
        "body": _body(message),
        "subtype": _line(message.content_subtype, "content_subtype"),
        "encoding": parts.encode_charset(message.encoding),
        "attachments": _attachments(message.attachments),
        **_alternatives(message),
        **_divided(message),
        **extras.encode(message, KNOWN | _ours(message)),
    }
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
    _restore_parts(message, stored)
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
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"{part} must be a list of addresses, not {values!r}")
    found = [_address(value, f"{part}[{i}]") for i, value in enumerate(values)]
    return found if part == "reply_to" else _single(found, part)


def _single(addresses: list[str], part: str) -> list[str]:
    """As Django's SMTP backend wants them; others would send to each, whoever may not have it."""
    for i, value in enumerate(addresses):
        if has_several(value):
            raise ValueError(f"{part}[{i}] must be one address, not several: {value!r}")
    return addresses


def _address(value: Any, part: str) -> str:
    if not isinstance(value, (str, Promise, Address)):
        raise ValueError(f"{part} must be an address in text, not {value!r}")
    return check_encodable(check_line(str(value), part), part)


def _headers(headers: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(_header_name(name), _header(name, value)) for name, value in headers.items()]


def _header_name(name: str) -> str:
    if name.lower() == "bcc":
        raise ValueError("headers['Bcc'] would show the blind copies; use the bcc argument")
    return check_line(name, f"the name of headers[{name!r}]")


def _header(name: str, value: Any) -> str:
    if isinstance(value, datetime):
        return format_datetime(value)
    return _line(value, f"headers[{name!r}]")


def _body(message: EmailMessage) -> str:
    encoding = parts.charset_name(message.encoding)
    return force_str(message.body or "", encoding=encoding, errors="surrogateescape")


def _attachments(attachments: Iterable[Any]) -> list[dict[str, Any]]:
    return [_attachment(item, f"attachments[{i}]") for i, item in enumerate(attachments)]


def _attachment(item: Any, part: str) -> dict[str, Any]:
    if isinstance(item, Message):
        return parts.encode_mime(item)
    name, content, kind = _triple(item, part)
    if name is not None:
        name = _line(name, f"the name of {part}")
    return {"name": name, **parts.encode_content(content, kind, part)}


def _triple(item: Any, part: str) -> tuple[Any, Any, Any]:
    try:
        name, content, kind = item
    except (TypeError, ValueError):
        raise ValueError(f"{part} must be (name, content, mimetype), not {item!r:.80}") from None
    return name, content, kind


def _alternatives(message: EmailMessage) -> dict[str, Any]:
    if not isinstance(message, EmailMultiAlternatives):
        return {}
    encoded = [
        parts.encode_content(content, kind, f"alternatives[{i}]", fallback=False)
        for i, (content, kind) in enumerate(message.alternatives)
    ]
    return {"alternatives": encoded}


def _divided(message: EmailMessage) -> dict[str, str]:
    usual = {"mixed_subtype": "mixed", "alternative_subtype": "alternative"}
    found = {name: getattr(message, name, usual[name]) for name in DIVIDED}
    found |= getattr(message.message, "subtypes", {})
    return {name: _line(one, name) for name, one in found.items() if one != usual[name]}


def _ours(message: EmailMessage) -> set[str]:
    """What ``_restore_division`` has put there."""
    return {"message"} if hasattr(message.message, "subtypes") else set()


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


def _restore_parts(message: EmailMessage, stored: dict[str, Any]) -> None:
    message.attachments = [_restore_attachment(item) for item in stored["attachments"]]
    if isinstance(message, EmailMultiAlternatives):
        message.alternatives = [
            EmailAlternative(parts.decode_content(item), item["type"])
            for item in stored["alternatives"]
        ]
    _restore_division(message, {name: stored[name] for name in DIVIDED if name in stored})
    for name, value in extras.decode(stored):
        if name not in KNOWN and not name.startswith("_"):
            setattr(message, name, value)


def _restore_division(message: EmailMessage, subtypes: dict[str, str]) -> None:
    if django.VERSION < (6, 0):
        vars(message).update(subtypes)
        return
    if not subtypes:
        return
    build = message.message

    def divided(**options: Any) -> Any:
        """As Django 5.2 did; later versions refuse to build a message that says so itself."""
        made: Any = build(**options)
        body = made.get_payload(0) if message.attachments and made.is_multipart() else made
        if "mixed_subtype" in subtypes and message.attachments:
            made.set_type(f"multipart/{subtypes['mixed_subtype']}")
        if "alternative_subtype" in subtypes and getattr(message, "alternatives", None):
            body.set_type(f"multipart/{subtypes['alternative_subtype']}")
        return made

    divided.subtypes = subtypes  # type: ignore[attr-defined]  # to store it once more
    message.message = divided  # type: ignore[method-assign]


def _restore_attachment(item: dict[str, Any]) -> Any:
    if "policy" in item:
        return parts.decode_mime(item)
    return EmailAttachment(item["name"], parts.decode_content(item), item["type"])
