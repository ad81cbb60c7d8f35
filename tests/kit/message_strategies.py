"""Any message that this version of Django can build, as hypothesis strategies."""

import warnings
from datetime import UTC, datetime
from email import message_from_string, policy
from email.charset import BASE64, QP, Charset
from email.encoders import encode_base64
from email.message import EmailMessage as ModernMessage
from email.message import Message, MIMEPart
from email.mime.base import MIMEBase
from email.mime.image import MIMEImage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import Policy
from email.utils import parseaddr
from typing import Any

import django
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.core.mail.message import EmailAlternative, EmailAttachment
from django.utils.functional import lazystr
from hypothesis import strategies as st

PNG = b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"
MODERN = django.VERSION >= (6, 0)  # its MIME is built by Python's newer classes
DATE = "Fri, 02 Jan 2026 03:04:05 +0000"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

any_text = st.text(st.characters(exclude_categories=["Cs"]))
long_line = st.text("a é", min_size=900, max_size=1100)
text = any_text | st.sampled_from(["", "From here\nto there", ".\n.", "a\r\nb\rc"]) | long_line
letters = st.characters(categories=["L", "N"], max_codepoint=0x24F)
word = st.text(letters, min_size=1, max_size=12) | st.sampled_from(["李", "Ünïcode", "=?x?="])
line = st.lists(word, max_size=6).map(" ".join) | st.lists(word, min_size=20, max_size=40).map(
    " ".join
)

# --- addresses and headers ----------------------------------------------------------------------

local = st.from_regex(r"[a-z][a-z0-9]{0,8}(\+[a-z]{1,3})?", fullmatch=True)
# Python 3.11.2 cannot parse an address whose domain is such a literal.
literal = ["[192.0.2.1]"] if parseaddr("a@[192.0.2.1]")[1] else []
domain = st.sampled_from(["x.example", "Mail.X.example", "bücher.example", *literal])
plain = st.builds("{}@{}".format, local, domain)
name = word | st.builds('"{}, {}"'.format, word, word)
address = st.one_of(
    plain,
    st.builds("{} <{}>".format, name, plain),
    st.builds("{} <{}>".format, name, plain).map(lazystr),
    st.sampled_from(["root", "zoë@x.example", "not an address", "a@x.example, b@x.example"]),
)
usual_address = plain | st.builds("{} <{}>".format, name, plain)
usual = st.lists(usual_address, max_size=3)
addresses = usual | usual | st.lists(address, max_size=1)

link = st.builds("<https://x.example/{}>, <mailto:u@x.example>".format, st.text("abc", max_size=99))
header = st.one_of(
    st.tuples(st.from_regex(r"[Xx]-[A-Za-z]{1,9}", fullmatch=True), line),
    st.tuples(st.sampled_from(["List-Unsubscribe", "list-unsubscribe"]), link),
    st.tuples(st.sampled_from(["Date", "DATE"]), st.sampled_from([DATE, MOMENT][: 1 + MODERN])),
    st.tuples(st.sampled_from(["Message-ID", "message-id"]), st.just("<mine.1@x.example>")),
    st.tuples(st.sampled_from(["From", "Sender", "To", "Cc", "Reply-To"]), usual_address),
    st.tuples(st.sampled_from(["References", "In-Reply-To"]), st.just("<1@x> <2@x>")),
)
headers = st.lists(header, max_size=4).map(dict)

# --- attachments and alternatives ---------------------------------------------------------------

text_type = st.sampled_from(["text/html", "text/plain", "text/calendar", "text/x-amp-html"])
invitation = st.just("text/calendar; method=REQUEST")
binary_type = st.sampled_from(["application/pdf", "image/png", "application/octet-stream"])
file_name = st.none() | st.sampled_from(["a.txt", "größe.csv", 'a "b".pdf', "é" * 90]) | word


# Of an empty subject Python leaves out the space after the colon, or does not: never empty here.


def inner_message(subject: str, body: str) -> EmailMessage:
    return EmailMessage(
        f"Re: {subject}",
        body,
        "a@x.example",
        ["b@x.example"],
        headers={"Message-ID": "<inner@x.example>", "Date": DATE},
    )


def modern_message(subject: str, body: str) -> ModernMessage:
    message = ModernMessage()
    message["Subject"] = f"Re: {subject}" if MODERN else ascii(subject)
    message.set_content(body)
    return message


enclosed = st.one_of(
    st.builds(inner_message, line, text),
    st.builds(modern_message, line, text),
    st.builds("Subject: {}\n\n{}".format, st.text("ab c", max_size=99), text),
    st.binary(max_size=20).map(lambda data: b"Subject: bytes\n\n" + data),
    st.just(message_from_string("Subject: old\n\ntext\n")),
)
attachment = st.one_of(
    st.builds(EmailAttachment, file_name, text, text_type),
    st.builds(EmailAttachment, file_name, st.binary(), binary_type),
    st.builds(EmailAttachment, file_name, st.binary(), text_type),
    st.builds(EmailAttachment, file_name, st.text("ab\n"), binary_type),
    st.builds(EmailAttachment, file_name, enclosed, st.just("message/rfc822")),
)


def described(part: Message, name: Any) -> Message:
    part.add_header("Content-ID", "<logo@x.example>")
    part.add_header("Content-Disposition", "inline", filename=name)
    return part


def base_part(data: bytes, of_policy: "Policy[Any]") -> MIMEBase:
    part = MIMEBase("application", "x-odd", policy=of_policy)
    part.set_payload(data)
    encode_base64(part)
    return part


def related(html: str, image: Message) -> MIMEMultipart:
    part = MIMEMultipart("related", type="text/html")
    part.attach(MIMEText(html, "html", "utf-8"))
    part.attach(image)
    return part


def modern_part(data: bytes, name: str) -> MIMEPart:
    part = MIMEPart()
    part.set_content(data, "image", "png", disposition="inline", cid="<logo>", filename=name)
    return part


def modern_text(content: str, encoding: str | None) -> MIMEPart:
    part = MIMEPart()
    part.set_content(content, subtype="x-log", cte=encoding)
    return part


def modern_related(html: str, image: bytes) -> MIMEPart:
    part = MIMEPart()
    part.set_content(html, subtype="html")
    part.add_related(image, "image", "png", cid="<logo>")
    return part


def image_part(of_policy: "Policy[Any]", name: Any) -> Message:
    return described(MIMEImage(PNG, "png", policy=of_policy), name)


policies = st.sampled_from([policy.compat32, policy.default])
non_ascii_name = st.just(("utf-8", "", "größe.png"))
# Of the newer policy Django 5.2 sends such a name garbled; it comes right out of our table.
image = st.builds(image_part, policies, st.just("logo.png"))
image |= st.builds(image_part, policies if MODERN else st.just(policy.compat32), non_ascii_name)
old_part = st.one_of(
    image,
    st.builds(MIMEText, text, st.just("x-log"), st.just("utf-8"), policy=policies),
    st.builds(base_part, st.binary(), policies),
    st.builds(related, text, image),
)
new_part = st.one_of(
    st.builds(modern_part, st.binary(), st.sampled_from(["logo.png", "größe.png"])),
    st.builds(modern_text, text, st.sampled_from([None, "8bit", "base64"])),
    st.builds(modern_related, text, st.binary()),
)
any_attachment = attachment | old_part | new_part if MODERN else attachment | old_part
alternative = st.one_of(
    st.builds(EmailAlternative, text, text_type),
    st.builds(EmailAlternative, text, invitation),
    st.builds(EmailAlternative, st.binary(), binary_type),
)
if MODERN:
    alternative |= st.builds(EmailAlternative, text.map(str.encode), text_type)

# --- the rest -----------------------------------------------------------------------------------


def charset(name: str, body_encoding: int | None) -> Charset:
    made = Charset(name)
    made.body_encoding = body_encoding  # type: ignore[assignment]
    return made


charsets = st.builds(
    charset,
    st.sampled_from(["utf-8", "iso-8859-1", "koi8-r", "euc-jp"]),
    st.sampled_from([QP, BASE64, None]),
)
named = st.sampled_from([None, "utf-8", "utf-8", "iso-8859-1", "us-ascii"])
encoding = st.none() | st.none() | (named if MODERN else named | charsets)
plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
mapping = st.dictionaries(any_text, plain_data, max_size=3)
for_providers = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.lists(any_text, max_size=3),
        "metadata": mapping,
        "template_id": any_text | st.integers(),
        "merge_data": st.dictionaries(plain, mapping, max_size=2),
        "merge_global_data": mapping,
        "esp_extra": mapping,
        "track_opens": st.booleans(),
        "send_at": st.datetimes(timezones=st.just(UTC))
        | st.datetimes()
        | st.dates()
        | st.floats(0, 9),
    },
)


def attach(message: EmailMessage, each: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # MIMEBase, from Django 6.0 on
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        message.attach(*each) if isinstance(each, EmailAttachment) else message.attach(each)


@st.composite
def messages(draw: st.DrawFn) -> Any:
    kind: Any = draw(st.sampled_from([EmailMessage, EmailMultiAlternatives]))
    message = kind(
        draw(line),
        draw(text),
        draw(usual_address) if draw(st.integers(0, 9)) else draw(address),
        [draw(usual_address), *draw(addresses)],
        cc=draw(addresses),
        bcc=draw(addresses),
        reply_to=draw(addresses),
        headers=draw(headers),
    )
    message.content_subtype = draw(st.sampled_from(["plain", "html", "markdown", "x-other"]))
    message.encoding = draw(encoding)
    for each in draw(st.lists(any_attachment, max_size=3)):
        attach(message, each)
    if isinstance(message, EmailMultiAlternatives):
        message.alternatives = draw(st.lists(alternative, max_size=3))
    if not MODERN and draw(st.booleans()):
        message.mixed_subtype = draw(st.sampled_from(["mixed", "related"]))
    for attribute, value in draw(for_providers).items():
        setattr(message, attribute, value)
    return message
