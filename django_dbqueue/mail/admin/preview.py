"""A stored message for people to read: pieces of plain text, to be escaped where they are shown,
and the HTML as it is, for a frame that is shut off from everything."""

import base64
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import unquote

from django.core.mail import EmailMessage
from django.utils.translation import ngettext

from ...texts.wording import number

SHOWN_MAX_CHARS = 50_000
IMAGES = {f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "avif", "bmp", "svg+xml")}
CID = re.compile(r"""cid:([^"'\s()<>]+)""", re.IGNORECASE)


@dataclass(frozen=True)
class Piece:
    title: str
    text: str


@dataclass(frozen=True)
class Attached:
    name: str
    kind: str
    size: int


@dataclass
class Contents:
    """What the page of an email shows of its message."""

    headers: str
    text: str
    has_html: bool
    others: list[Piece] = field(default_factory=list)
    attached: list[Attached] = field(default_factory=list)


def contents(message: EmailMessage) -> Contents:
    is_html = message.content_subtype == "html"
    lines = [f"{name}: {value}" for name, value in message.extra_headers.items()]
    # The sources of what is no plain text.
    others = []
    if message.content_subtype != "plain":
        others.append(Piece(f"text/{message.content_subtype}", _shown(str(message.body))))
    for content, kind in getattr(message, "alternatives", ()):
        text = _shown(content) if isinstance(content, str) else _bytes(len(content))
        others.append(Piece(printable(kind), text))
    return Contents(
        headers=_shown("\n".join(lines)),
        text="" if is_html else _shown(str(message.body)),
        has_html=html_of(message) is not None,
        others=others,
        attached=[_attached(item) for item in message.attachments],
    )


def _bytes(count: int) -> str:
    return ngettext("%(number)s byte", "%(number)s bytes", count) % {"number": number(count)}


def html_of(message: EmailMessage) -> str | None:
    """The HTML with the images that the message brings along in it, or None."""
    found = next(_html_parts(message), None)
    if found is None:
        return None
    # By Content-ID, as an address that holds the image itself.
    images: dict[str, str] = {}
    for part in _parts(message):
        name, kind = str(part.get("Content-ID", "")).strip(" <>"), part.get_content_type()
        if name and kind in IMAGES:
            data = base64.b64encode(_payload(part)).decode()
            images[name] = f"data:{kind};base64,{data}"

    def image(match: re.Match[str]) -> str:
        return images.get(unquote(html.unescape(match[1])), match[0])

    return CID.sub(image, printable(found))


def shortened(text: str, limit: int) -> str:
    """Return the text, or its beginning and an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """Half of a surrogate pair can be stored in a message, and sent to no browser."""
    return text.encode(errors="replace").decode()


def _shown(text: str) -> str:
    return shortened(printable(text), SHOWN_MAX_CHARS)


def _html_parts(message: EmailMessage) -> Iterator[str]:
    if message.content_subtype == "html":
        yield str(message.body)
    for content, kind in getattr(message, "alternatives", ()):
        if kind == "text/html" and isinstance(content, str):
            yield content
    for part in _parts(message):
        if part.get_content_type() == "text/html" and not part.get_filename():
            yield _payload(part).decode(errors="replace")


def _parts(message: EmailMessage) -> Iterator[Message]:
    for item in message.attachments:
        if isinstance(item, Message):
            yield from item.walk()


def _payload(part: Message) -> bytes:
    found = part.get_payload(decode=True)
    return found if isinstance(found, bytes) else b""


def _attached(item: Any) -> Attached:
    if isinstance(item, Message):
        # Images in the text go by their Content-ID.
        name, kind = item.get_filename() or item["Content-ID"], item.get_content_type()
        size = sum(len(_payload(part)) for part in item.walk())
    else:
        name, content, kind = item
        size = len(content.encode(errors="replace") if isinstance(content, str) else content)
    return Attached(printable(name or "-"), printable(kind), size)
