"""What goes into the mail codec comes out of it, as MIME, on every version of Django."""

import json
import re
from datetime import UTC, datetime
from email import message_from_string
from email.charset import QP, Charset
from email.headerregistry import Address
from email.message import EmailMessage as ModernMessage
from email.message import MIMEPart
from email.mime.image import MIMEImage
from email.mime.text import MIMEText
from typing import Any

import django
import pytest
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.core.mail.message import EmailAlternative, EmailAttachment
from django.utils.functional import lazystr
from django.utils.translation import gettext_lazy, override
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_dbqueue.mail.codec import decode, encode

DATE = "Fri, 02 Jan 2026 03:04:05 +0000"
PNG = b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"


def round_trip(message: EmailMessage) -> Any:
    return decode(encode(message))


def mime(message: EmailMessage) -> bytes:
    """The message as sent, without what is new on every rendering: date, id and boundaries."""
    data = message.message().as_bytes()
    data = re.sub(rb"(?m)^(Date|Message-ID): .*(\n[ \t].*)*\n", b"", data)
    return re.sub(rb"={15}\d+==", b"BOUNDARY", data)


def letter(**fields: Any) -> EmailMultiAlternatives:
    return EmailMultiAlternatives(
        **{"subject": "Hello", "body": "text", "from_email": "a@x.example", **fields}
    )


def inline_image() -> MIMEImage:
    image = MIMEImage(PNG, "png")
    image.add_header("Content-ID", "<logo>")
    image.add_header("Content-Disposition", "inline", filename="logo.png")
    return image


# --- hypothesis ---------------------------------------------------------------------------------

any_text = st.text(st.characters(exclude_categories=["Cs"]))
word = st.text(st.characters(categories=["L", "N"], max_codepoint=0x24F), min_size=1, max_size=12)
line = st.lists(word, max_size=6).map(" ".join)
local = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
domain = st.sampled_from(["x.example", "mail.x.example", "bücher.example"])
plain_address = st.builds("{}@{}".format, local, domain)
address = st.one_of(plain_address, st.builds("{} <{}>".format, word, plain_address))
addresses = st.lists(address, max_size=3)
text_type = st.sampled_from(["text/html", "text/plain", "text/calendar", "text/x-amp-html"])
binary_type = st.sampled_from(["application/pdf", "image/png", "application/octet-stream"])
alternative = st.builds(EmailAlternative, any_text, text_type)
attachment = st.one_of(
    st.builds(EmailAttachment, word, any_text, text_type),
    st.builds(EmailAttachment, st.none() | word, st.binary(), binary_type),
    st.builds(inline_image),
)
header_name = st.from_regex(r"X-[A-Z][a-z]{1,8}", fullmatch=True)


@st.composite
def messages(draw: st.DrawFn) -> EmailMessage:
    kind = draw(st.sampled_from([EmailMessage, EmailMultiAlternatives]))
    message = kind(
        draw(line),
        draw(any_text),
        draw(address),
        draw(addresses),
        cc=draw(addresses),
        bcc=draw(addresses),
        reply_to=draw(addresses),
        headers=draw(st.dictionaries(header_name, line, max_size=3)),
    )
    message.content_subtype = draw(st.sampled_from(["plain", "html"]))
    message.encoding = draw(st.sampled_from([None, "utf-8"]))
    message.attachments = draw(st.lists(attachment, max_size=4))
    if isinstance(message, EmailMultiAlternatives):
        message.alternatives = draw(st.lists(alternative, max_size=4))
    return message


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(messages())
def test_the_mime_that_comes_out_is_the_mime_that_went_in(message: EmailMessage) -> None:
    expected = mime(message)
    restored = round_trip(message)
    assert type(restored) is type(message)
    assert restored.recipients() == message.recipients()
    assert mime(restored) == expected
    assert encode(restored) == encode(message)


# --- fidelity, one by one -----------------------------------------------------------------------


def test_what_is_stored_is_json_of_a_known_version_and_its_text_is_readable() -> None:
    stored = encode(letter(body="Grüße aus Köln", alternatives=[("<p>Grüße</p>", "text/html")]))
    assert json.loads(stored)["version"] == 1
    assert "Grüße aus Köln" in stored
    assert "<p>Grüße</p>" in stored


def test_an_html_body_stays_html() -> None:
    message = letter(body="<p>hi</p>")
    message.content_subtype = "html"
    assert round_trip(message).content_subtype == "html"


def test_every_alternative_is_kept_in_order() -> None:
    alternatives = [("<p>", "text/html"), ("BEGIN:VCALENDAR", "text/calendar"), (PNG, "image/png")]
    restored = round_trip(letter(alternatives=alternatives))
    assert [tuple(item) for item in restored.alternatives] == alternatives


def test_attachments_of_one_name_are_all_kept_with_their_types() -> None:
    attachments = [
        ("a.txt", "one", "text/plain"),
        ("a.txt", b"\x00two", "application/x-two"),
        (None, PNG, "image/png"),
        ("größe.csv", "a;b\r\n", "text/csv"),
    ]
    restored = round_trip(letter(attachments=attachments))
    assert [tuple(item) for item in restored.attachments] == attachments


def test_an_inline_image_keeps_its_content_id() -> None:
    message = letter(alternatives=[('<img src="cid:logo">', "text/html")])
    message.attachments = [inline_image()]
    restored = round_trip(message)
    assert restored.attachments[0]["Content-ID"] == "<logo>"
    assert restored.attachments[0].get_payload(decode=True) == PNG
    assert mime(restored) == mime(message)


def test_a_mime_text_part_with_a_line_that_begins_with_from_is_not_changed() -> None:
    message = letter()
    message.attachments = [MIMEText("From here\nto there", "x-log", "utf-8")]
    assert mime(round_trip(message)) == mime(message)


def test_a_modern_mime_part_is_kept_even_for_an_older_django() -> None:
    part = MIMEPart()
    part.set_content(PNG, "image", "png", disposition="inline", cid="<logo>", filename="ä.png")
    message = letter()
    message.attachments = [part]
    restored = round_trip(message)
    assert isinstance(restored.attachments[0], MIMEPart)
    assert b"Content-ID: <logo>" in mime(restored)
    if django.VERSION >= (6, 0):  # Django 5.2 reads such a part but does not take it itself
        assert mime(restored) == mime(message)


def test_a_message_within_the_message_is_kept() -> None:
    inner = letter(subject="inner", headers={"Message-ID": "<1@x>", "Date": DATE})
    modern = ModernMessage()
    modern["Subject"] = "innermost"
    modern.set_content("text")
    legacy = message_from_string("Subject: old\n\ntext\n")
    outer = letter()
    outer.attachments = [
        EmailAttachment("inner.eml", content, "message/rfc822")
        for content in (inner, modern, legacy, "Subject: text\n\ntext\n", b"Subject: b\n\ntext\n")
    ]
    assert mime(round_trip(outer)) == mime(outer)


def test_bytes_attached_as_text_become_text_or_octets_as_in_django() -> None:
    message = letter()
    message.attachments = [("a", "é".encode(), "text/plain"), ("b", b"\xff", "text/plain")]
    restored = round_trip(message)
    assert restored.attachments[0] == ("a", "é", "text/plain")
    assert restored.attachments[1] == ("b", b"\xff", "application/octet-stream")


def test_headers_keep_their_order_and_their_spelling() -> None:
    headers = {"X-B": "2", "x-a": "1", "List-Unsubscribe": "<https://x.example/u>"}
    assert list(round_trip(letter(headers=headers)).extra_headers.items()) == list(headers.items())


def test_a_date_in_a_header_becomes_a_mail_date() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    restored = round_trip(letter(headers={"Date": moment}))
    assert restored.extra_headers["Date"] == DATE


def test_lazy_texts_become_text_in_the_language_of_the_enqueuer() -> None:
    message = letter(
        subject=gettext_lazy("Yes"), to=[lazystr("b@x.example")], headers={"X-A": lazystr("v")}
    )
    with override("de"):
        stored = encode(message)
    assert decode(stored).subject == "Ja"
    assert decode(stored).to == ["b@x.example"]
    assert decode(stored).extra_headers == {"X-A": "v"}


def test_an_address_object_is_taken() -> None:
    restored = round_trip(letter(to=[Address("Zoë", "zoe", "x.example")]))
    assert restored.to == ["Zoë <zoe@x.example>"]


def test_another_charset_is_kept() -> None:
    message = letter(body="Grüße")
    message.encoding = "iso-8859-1"
    assert mime(round_trip(message)) == mime(message)


def test_a_charset_object_is_kept_where_django_takes_one() -> None:
    message = letter(body="Grüße")
    charset = Charset("utf-8")
    charset.body_encoding = QP
    message.encoding = charset  # type: ignore[assignment]
    restored = round_trip(message)
    if django.VERSION < (6, 0):
        assert mime(restored) == mime(message)
    else:
        assert restored.encoding == "utf-8"


def test_a_body_with_nul_and_lone_surrogates_is_kept_in_text_that_every_database_takes() -> None:
    message = letter(body="a\x00b\ud800c😀")
    stored = encode(message)
    assert "\x00" not in stored
    assert stored.encode()
    assert decode(stored).body == message.body


def test_attributes_for_mail_providers_are_kept() -> None:
    message: Any = letter()
    message.tags = ["welcome", lazystr("x")]
    message.metadata = {"order": 7, "paid": True, "rate": 1.5, "note": None}
    message.merge_data = {"b@x.example": {"name": "B"}}
    message._private = object()
    restored = round_trip(message)
    assert restored.tags == ["welcome", "x"]
    assert restored.metadata == message.metadata
    assert restored.merge_data == message.merge_data


def test_what_an_earlier_release_stored_is_read() -> None:
    stored = {
        "version": 1,
        "subject": "Grüße",
        "from_email": "shop@x.example",
        "to": ["Anna <anna@x.example>"],
        "cc": [],
        "bcc": ["b@x.example"],
        "reply_to": ["r@x.example"],
        "headers": [["X-A", "1"]],
        "body": "text",
        "subtype": "plain",
        "encoding": ["utf-8", 3, 1],
        "attachments": [
            {"name": "a.txt", "type": "text/plain", "text": "a"},
            {"name": None, "type": "image/png", "base64": "AAE="},
            {"policy": "compat32", "base64": "Q29udGVudC1UeXBlOiB0ZXh0L3BsYWluCgphCg=="},
            {"policy": "default", "base64": "Q29udGVudC1UeXBlOiB0ZXh0L3BsYWluCgphCg=="},
        ],
        "alternatives": [{"type": "text/html", "text": "<p>"}],
        "extra": {"tags": ["a"]},
    }
    message: Any = decode(json.dumps(stored))
    assert message.recipients() == ["Anna <anna@x.example>", "b@x.example"]
    assert [part[1] for part in message.attachments[:2]] == ["a", b"\x00\x01"]
    assert [part.get_payload() for part in message.attachments[2:]] == ["a\n", "a\n"]
    assert (message.tags, message.extra_headers) == (["a"], {"X-A": "1"})
    assert json.loads(encode(message))["headers"] == stored["headers"]


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"subject": "a\nBcc: x@x.example"}, "subject"),
        ({"from_email": "a@x.example\r\nX: y"}, "from_email"),
        ({"to": ["b@x.example", "c@x.example\n"]}, r"to\[1\]"),
        ({"cc": ["b@x.example\r"]}, r"cc\[0\]"),
        ({"bcc": ["b@x.example\n"]}, r"bcc\[0\]"),
        ({"reply_to": ["b@x.example\0"]}, r"reply_to\[0\]"),
        ({"headers": {"X-A": "1\n2"}}, r"headers\['X-A'\]"),
        ({"headers": {"X-A\n": "1"}}, r"headers\['X-A\\n'\]"),
        ({"attachments": [("a\n.txt", "x", "text/plain")]}, r"the name of attachments\[0\]"),
    ],
)
def test_a_line_break_in_a_header_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        encode(letter(**fields))


@pytest.mark.parametrize(
    ("attribute", "value", "named"),
    [
        ("attachments", [("a", object(), "image/png")], r"attachments\[0\]"),
        ("attachments", [("a", "x", "text/plain"), ("b", "x", None)], r"attachments\[1\]"),
        ("attachments", [("a", "x")], r"attachments\[0\]"),
        ("attachments", [7], r"attachments\[0\]"),
        ("alternatives", [(b"\xff", "text/html")], r"alternatives\[0\]"),
        ("alternatives", [(3, "text/html")], r"alternatives\[0\]"),
        ("to", "b@x.example", "to must be a list"),
        ("to", [None], r"to\[0\]"),
        ("subject", None, "subject"),
        ("extra_headers", {"X-A": None}, r"headers\['X-A'\]"),
        ("extra_headers", {"Bcc": "b@x.example"}, "bcc argument"),
        ("encoding", 5, "encoding"),
        ("metadata", {"a": {"when": object()}}, r"metadata\['a'\]\['when'\]"),
        ("merge_data", {1: {}}, "merge_data"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_name(attribute: str, value: Any, named: str) -> None:
    message = letter()
    setattr(message, attribute, value)
    with pytest.raises(ValueError, match=named):
        encode(message)


def test_a_class_that_builds_its_mime_by_itself_is_refused() -> None:
    class Signed(EmailMessage):
        def message(self, **options: Any) -> Any:
            return super().message(**options)

    with pytest.raises(ValueError, match=r"Signed\.message"):
        encode(Signed("Hello", "text", "a@x.example", ["b@x.example"]))


@pytest.mark.parametrize("text", ['{"version": 2}', "{}", "[]", "not json", ""])
def test_text_that_we_did_not_write_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"version|Expecting"):
        decode(text)
