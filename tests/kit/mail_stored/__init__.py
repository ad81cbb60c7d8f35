"""Messages as each version of Django stored them, and what they say.

``python -m tests.kit.mail_stored`` writes this version's file anew; the tests read all of them.
"""

import json
import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.charset import QP, Charset
from email.header import decode_header, make_header
from email.message import Message, MIMEPart
from email.mime.image import MIMEImage
from pathlib import Path
from typing import Any

import django
from django.core.mail import EmailMessage, EmailMultiAlternatives

from django_dbqueue.mail.storing.codec import decode, encode

# A message of a file, as JSON: its name, its stored text, and what it says.
Entry = dict[str, Any]
FOLDER = Path(__file__).parent
MODERN = django.VERSION >= (6, 0)
VERSION = "{}.{}".format(*django.VERSION)
PNG = b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"
FIXED = {"Date": "Fri, 02 Jan 2026 03:04:05 +0000", "Message-ID": "<stored@x.example>"}
# How it is written, not what it says.
FORM = {"content-transfer-encoding", "mime-version", "content-type", "content-disposition"}


def letter(**fields: Any) -> EmailMultiAlternatives:
    given = {"subject": "Grüße aus Köln", "body": "Liebe Anna,\n\nschöne Grüße\n", **fields}
    given["headers"] = FIXED | fields.get("headers", {})
    return EmailMultiAlternatives(
        **{
            "from_email": "Shop Köln <shop@x.example>",
            "to": ["Anna Bär <a@bücher.example>"],
            **given,
        }
    )


def inline_image() -> Any:
    if MODERN:
        part = MIMEPart()
        part.set_content(PNG, "image", "png", disposition="inline", cid="<l@x>", filename="ä.png")
        return part
    image = MIMEImage(PNG, "png")
    image.add_header("Content-ID", "<l@x>")
    image.add_header("Content-Disposition", "inline", filename=("utf-8", "", "ä.png"))
    return image


def samples() -> Iterator[tuple[str, EmailMessage]]:
    """(name, message), the same on every version as far as the version can."""
    yield "plain", EmailMessage("Hello", "text\n", "a@x.example", ["b@x.example"], headers=FIXED)
    html = letter(body="<p>Grüße</p>\n")
    html.content_subtype = "html"
    yield "html", html
    invitation = [("<p>Grüße</p>\n", "text/html"), ("BEGIN:VCALENDAR\n", "text/calendar")]
    yield "invitation", letter(alternatives=invitation)
    yield "everybody", letter(cc=["C <c@x.example>"], bcc=["d@x.example"], reply_to=["r@x.example"])
    yield "headers", letter(headers={"List-Unsubscribe": "<https://x.example/u>", "x-a": "ü " * 70})
    files = [
        ("a.txt", "eins\n", "text/plain"),
        ("a.txt", PNG, "image/png"),
        ("ö", "ä;\n", "text/csv"),
    ]
    yield "attachments", letter(attachments=files)
    inline = letter(alternatives=[('<img src="cid:l@x">\n', "text/html")])
    inline.attachments = [inline_image()]
    yield "inline", inline
    yield "enclosed", letter(attachments=[("m.eml", letter(subject="Innen ü"), "message/rfc822")])
    latin = letter()
    latin.encoding = "iso-8859-1"
    yield "latin", latin
    yield from old_samples()
    for_provider: Any = letter()
    for_provider.tags, for_provider.metadata = ["a"], {"n": 1}
    for_provider.merge_data, for_provider.template_id = {"a@x": {"name": "A"}}, "welcome"
    yield "provider", for_provider


def old_samples() -> Iterator[tuple[str, EmailMessage]]:
    if MODERN:
        return
    quoted = letter()
    quoted.encoding = Charset("utf-8")
    quoted.encoding.body_encoding = QP
    yield "charset", quoted
    divided: Any = letter(
        alternatives=[("<p>\n", "text/html")], attachments=[("a", PNG, "image/png")]
    )
    divided.mixed_subtype, divided.alternative_subtype = "related", "x-choice"
    yield "divided", divided


def store(folder: Path = FOLDER) -> int:
    """Write this version's file; how many messages it holds."""
    entries = [
        {"name": name, "stored": encode(message), **said_by(message)} for name, message in samples()
    ]
    text = json.dumps(entries, ensure_ascii=False, indent=1)
    (folder / f"{VERSION}.json").write_text(text + "\n")
    return len(entries)


def stored(folder: Path = FOLDER) -> Iterator[tuple[str, Entry]]:
    """(the version that stored it, its entry) of every message in every file."""
    for path in sorted(folder.glob("*.json")):
        yield from ((path.stem, entry) for entry in json.loads(path.read_text()))


def read(entry: Entry) -> Entry:
    """What its stored text says under this version."""
    return said_by(decode(entry["stored"]))


def says_the_same(entry: Entry) -> bool:
    found = read(entry)
    return all(found[told] == entry[told] for told in found)


def said_by(message: EmailMessage) -> Entry:
    given = message.message(**({"policy": policy.SMTP} if MODERN else {}))
    extra = {name: getattr(message, name, None) for name in ("tags", "metadata", "merge_data")}
    return {
        "recipients": [str(one) for one in message.recipients()],
        "extra": extra | {"template_id": getattr(message, "template_id", None)},
        "says": structure(message_from_bytes(given.as_bytes())),
    }


def structure(part: Message) -> Entry:
    """A MIME message as plain data: headers decoded, parts in order, types, names, payloads.

    Not its bytes, for they differ from version to version: another folding and another choice
    among the encodings, and from 6.0 on a line break ends every text.
    """
    return {
        "type": part.get_content_type(),
        "method": part.get_param("method"),
        "disposition": part.get_content_disposition(),
        "name": decoded(part.get_filename() or ""),
        "headers": sorted(
            [name.lower(), decoded(value)]
            for name, value in part.items()
            if name.lower() not in FORM
        ),
        "holds": holds(part),
    }


def holds(part: Any) -> list[Entry] | str:
    if part.is_multipart():
        return [structure(each) for each in part.get_payload()]
    data = part.get_payload(decode=True)
    if part.get_content_maintype() != "text":
        return str(data.hex())
    text = str(data.decode(part.get_content_charset("utf-8")))
    return text.replace("\r\n", "\n").rstrip("\n")


def decoded(value: object) -> str:
    unfolded = re.sub(r"\r?\n", "", str(value))
    return " ".join(str(make_header(decode_header(unfolded))).split())
