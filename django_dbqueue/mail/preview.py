"""A stored message as pieces of plain text, for people to read; whoever shows them escapes them."""

from collections.abc import Iterator
from email.message import Message
from typing import Any

from django.core.mail import EmailMessage

MOST_CHARS = 50_000


def pieces(email: Any) -> list[tuple[str, str]]:
    """Return (title, text) of the headers, every text part and, by name only, the attachments."""
    if not email.message:
        return []
    try:
        message = email.to_message()
    except (ValueError, KeyError) as error:
        return [("Cannot be read", str(error))]
    return list(_pieces(message))


def shortened(text: str, limit: int) -> str:
    """Return the text, or its beginning and an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _pieces(message: EmailMessage) -> Iterator[tuple[str, str]]:
    if message.extra_headers:
        lines = [f"{name}: {value}" for name, value in message.extra_headers.items()]
        yield "Headers", shortened("\n".join(lines), MOST_CHARS)
    yield f"text/{message.content_subtype}", shortened(str(message.body), MOST_CHARS)
    for content, kind in getattr(message, "alternatives", ()):
        yield kind, _text(content)
    if message.attachments:
        yield "Attachments", "\n".join(map(_attachment, message.attachments))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return shortened(content, MOST_CHARS)
    return f"{len(content)} bytes"


def _attachment(item: Any) -> str:
    if isinstance(item, Message):
        size = len(item.get_payload(decode=True) or b"")
        return f"{item.get_filename() or '-'} {item.get_content_type()} {size} bytes"
    name, content, kind = item
    unit = "characters" if isinstance(content, str) else "bytes"
    return f"{name or '-'} {kind} {len(content)} {unit}"
