"""What cannot be stored without loss is refused when it is enqueued, by the name of the part."""

from typing import Any

import pytest
from django.core.mail import EmailMessage

from django_dbqueue.mail.deliveries import address_of
from django_dbqueue.mail.storing.codec import decode, encode
from tests.kit.mail import letter


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


def test_two_addresses_in_one_text_are_not_taken_for_the_first_of_them() -> None:
    both = "a@x.example, b@x.example"
    assert address_of(both) == both
    assert address_of("Anna <a@X.Example>") == "a@x.example"
