"""What no mailer could deliver, or some would to people whom nobody has judged, is refused when it
is queued, by its name."""

import pytest
from django.core.mail import EmailMultiAlternatives

from django_dbqueue.mail.models import Email
from tests.kit.mail import USING, letter

pytestmark = pytest.mark.usefixtures("db_rows")

SEVERAL = [
    "anna@x.example, berta@x.example",
    "Anna <anna@x.example>,Berta <berta@x.example>",
    "all: anna@x.example, berta@x.example;",
    "anna@x.example\t,\tberta@x.example",
]
EVIL = "a\r\nX-Evil: 1"


def refusal_of(message):
    with pytest.raises(ValueError, match=r".") as caught:
        Email.from_message(message, **USING)
    return str(caught.value)


@pytest.mark.parametrize("text", SEVERAL)
@pytest.mark.parametrize("part", ["to", "cc", "bcc"])
def test_a_text_of_several_addresses_is_refused(part, text):
    message = letter("carla")
    setattr(message, part, ["dora@x.example", text])
    assert refusal_of(message) == f"{part}[1] must be one address, not several: {text!r}"


@pytest.mark.parametrize(
    "text",
    [
        '"Doe, Anna" <anna@x.example>',
        '"berta@x.example, carla@x.example" <anna@x.example>',
        '"a@b, c"@x.example',
        "anna@x.example (berta@x.example, say)",
        "root",
    ],
)
def test_a_text_of_one_address_may_have_commas_and_more_than_one_at(text):
    message = letter()
    message.to = [text]
    assert Email.from_message(message, **USING).to_message().to == [text]


def test_answers_may_go_to_several_in_one_text():
    message = letter("anna", reply_to=SEVERAL[:1])
    assert Email.from_message(message, **USING).to_message().reply_to == SEVERAL[:1]


@pytest.mark.parametrize("part", ["to", "cc", "bcc", "reply_to"])
def test_half_a_surrogate_pair_in_an_address_is_refused(part):
    message = letter("anna")
    setattr(message, part, ["a\ud800@x.example"])
    assert refusal_of(message).startswith(f"{part}[0] must not contain half a surrogate pair")


def test_a_line_break_in_what_becomes_a_header_of_a_part_is_refused_by_its_name():
    broken = {
        "the name of attachments[0]": lambda m: m.attachments.append((EVIL, b"x", "text/x")),
        "the MIME type of attachments[0]": lambda m: m.attachments.append(("a", b"x", f"a/{EVIL}")),
        "the MIME type of alternatives[0]": lambda m: m.attach_alternative("x", f"text/{EVIL}"),
        "content_subtype": lambda m: setattr(m, "content_subtype", EVIL),
        "mixed_subtype": lambda m: setattr(m, "mixed_subtype", EVIL),
    }
    for part, break_it in broken.items():
        message: EmailMultiAlternatives = letter("anna")
        break_it(message)
        assert refusal_of(message).startswith(f"{part} must not contain line breaks"), part
