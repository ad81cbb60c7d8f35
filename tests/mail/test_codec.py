"""What goes into the mail codec comes out of it, as MIME, on every version of Django."""

import json
import re
from datetime import UTC, date, datetime
from email import message_from_string, policy
from email.charset import QP, Charset
from email.headerregistry import Address
from email.message import EmailMessage as ModernMessage
from email.message import MIMEPart
from email.mime.image import MIMEImage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

import django
import pytest
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.core.mail.message import EmailAttachment
from django.utils.functional import lazystr
from django.utils.translation import gettext_lazy, override

from django_dbqueue.mail.storing.codec import decode, encode
from tests.kit.mail import letter
from tests.kit.message_strategies import DATE, PNG


def round_trip(message: EmailMessage) -> Any:
    return decode(encode(message))


def mime(message: EmailMessage) -> bytes:
    """The message as sent, without what is new on every rendering: date, id and boundaries."""
    data = message.message().as_bytes()
    data = re.sub(rb"(?m)^(Date|Message-ID): .*(\n[ \t].*)*\n", b"", data)
    return re.sub(rb"={15}\d+==", b"BOUNDARY", data)


def inline_image() -> MIMEImage:
    image = MIMEImage(PNG, "png")
    image.add_header("Content-ID", "<logo>")
    image.add_header("Content-Disposition", "inline", filename="logo.png")
    return image


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
    message.encoding = charset
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


def test_a_date_for_a_provider_comes_back_as_what_it_was() -> None:
    for moment in (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), date(2026, 1, 2)):
        message: Any = letter()
        message.send_at = moment
        restored = round_trip(message)
        assert (restored.send_at, type(restored.send_at)) == (moment, type(moment))


def test_plain_data_that_a_class_says_of_all_its_messages_is_kept() -> None:
    class Invoice(EmailMultiAlternatives):
        content_subtype = "html"
        tags = ("invoice",)
        template_id = "base"
        renderer = object()

    class Reminder(Invoice):
        template_id = "reminder"

    restored = round_trip(Reminder("Hello", "<p>", "a@x.example", ["b@x.example"]))
    assert restored.content_subtype == "html"
    assert restored.tags == ["invoice"]
    assert restored.template_id == "reminder"
    assert not hasattr(restored, "renderer")


def test_a_message_of_anymails_own_class_keeps_what_was_set_on_it() -> None:
    anymail = pytest.importorskip("anymail.message")
    message = anymail.AnymailMessage(
        "Hello", "text", "a@x.example", ["b@x.example"], tags=["welcome"], track_opens=False
    )
    message.metadata = {"order": 7}
    restored = round_trip(message)
    assert restored.tags == ["welcome"]
    assert restored.track_opens is False
    assert restored.metadata == {"order": 7}
    assert not hasattr(restored, "template_id")


def test_a_part_of_pythons_newer_classes_within_an_older_one_keeps_its_file_name() -> None:
    inner = MIMEImage(PNG, "png", policy=policy.default)
    inner.add_header("Content-Disposition", "inline", filename="größe.png")
    related = MIMEMultipart("related")
    related.attach(inner)
    message = letter()
    message.attachments = [related]
    [restored] = round_trip(message).attachments
    assert restored.get_payload(0).get_filename() == "größe.png"


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
