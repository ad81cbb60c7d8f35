"""What is set on a message besides Django's own: what delivering backends read is kept, the rest
is left out and told of once, and nothing of it keeps mail from being queued."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.mail import EmailMultiAlternatives
from django.template import Template

from django_dbqueue.mail.models import Email
from django_dbqueue.mail.storing import parts
from django_dbqueue.mail.storing.codec import decode, encode
from tests.kit.mail import letter, run_mail, setting

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("queueing")]

LOG = "django_dbqueue"

# By what the packages' own documentation and code name.
PROVIDERS: dict[str, dict[str, Any]] = {
    "django-anymail": {
        "envelope_sender": "bounces@x.example",
        "esp_extra": {"o:testmode": True},
        "merge_data": {"anna@x.example": {"name": "Anna"}},
        "merge_global_data": {"shop": "X"},
        "merge_headers": {"anna@x.example": {"X-A": "1"}},
        "merge_metadata": {"anna@x.example": {"order": 7}},
        "metadata": {"order": 7},
        "send_at": datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
        "tags": ["welcome"],
        "template_id": "t-1",
        "track_clicks": False,
        "track_opens": True,
    },
    "django-sendgrid-v5": {
        "asm": {"group_id": 1},
        "categories": ["a"],
        "custom_args": {"a": "1"},
        "dynamic_template_data": {"name": "Anna"},
        "ip_pool_name": "transactional",
        "make_private": True,
        "personalizations": [{"to": [{"email": "anna@x.example"}]}],
        "reply_to_list": ["r@x.example"],
        "send_at": 1893553445,
        "substitutions": {"%name%": "Anna"},
    },
    "sparkpost": {
        "campaign": "may",
        "substitution_data": {"name": "Anna"},
        "template": "t-1",
    },
    "postmarker": {"message_stream": "outbound", "metadata": {"a": "b"}, "tag": "welcome"},
    "django-mailjet": {
        "custom_id": "7",
        "deduplicate_campaign": True,
        "event_payload": "7",
        "recipient_vars": {"anna@x.example": {"name": "Anna"}},
        "template_error_deliver": True,
        "template_error_reporting": "dev@x.example",
        "template_language": True,
        "template_vars": {"name": "Anna"},
        "track_click": 1,
        "track_open": 1,
    },
    "django-getresponse": {"tag_id": "7"},
}


class Activation(EmailMultiAlternatives):
    """As djoser and django-mail-templated have it: what it is made from stays on the message."""

    template_name = "activation.html"

    def __init__(self, user: User, **context: Any) -> None:
        super().__init__("Welcome", "text", "shop@x.example", [user.email])
        self.user = user
        self.context = {"user": user, **context}
        self.template = Template("{{ user }}")


@pytest.fixture(autouse=True)
def nothing_told() -> Iterator[None]:
    told = set(parts.told)
    parts.told.clear()
    yield
    parts.told.update(told)


def anna() -> User:
    return User(username="anna", email="anna@x.example")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOG]


def test_a_message_that_keeps_objects_on_itself_is_queued_and_delivered_as_without_us(
    db_rows: None, mailoutbox: list[Any]
) -> None:
    Activation(anna(), ip="127.0.0.1").send()
    assert Email.objects.count() == 1
    run_mail()
    [delivered] = mailoutbox
    assert (delivered.subject, delivered.body, delivered.to) == (
        "Welcome",
        "text",
        ["anna@x.example"],
    )
    assert not hasattr(delivered, "user")


def test_what_is_left_out_is_told_once_for_each_class(
    db_rows: None, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        Activation(anna()).send()
    [line] = lines(caplog)
    assert "tests.mail.test_attributes.Activation" in line
    assert "context, template (not plain data), template_name, user" in line
    assert "MAIL_ATTRIBUTES" in line
    message: Any = letter()
    message.note = "mine"
    message.send()
    assert len(lines(caplog)) == 2


def test_a_plain_message_has_nothing_to_tell(
    db_rows: None, caplog: pytest.LogCaptureFixture
) -> None:
    anymail = pytest.importorskip("anymail.message")
    letter(headers={"X-A": "1"}, alternatives=[("<p>", "text/html")]).send()
    anymail.AnymailMessage("Hello", "text", "a@x.example", ["b@x.example"], tags=["a"]).send()
    for email in Email.objects.all():
        email.to_message().send()  # what was restored, once more
    assert Email.objects.count() == 4
    assert lines(caplog) == []


@pytest.mark.parametrize("package", PROVIDERS)
def test_what_the_packages_of_providers_read_is_kept(
    package: str, caplog: pytest.LogCaptureFixture
) -> None:
    message: Any = letter()
    vars(message).update(PROVIDERS[package])
    restored = decode(encode(message))
    for name, value in PROVIDERS[package].items():
        assert getattr(restored, name) == value, name
    assert lines(caplog) == []


def test_a_property_that_a_backend_reads_is_kept() -> None:
    class Invoice(EmailMultiAlternatives):
        @property
        def tags(self) -> list[str]:
            return ["invoice", str(self.subject)]

    restored: Any = decode(encode(Invoice("Hello", "text", "a@x.example", ["b@x.example"])))
    assert restored.tags == ["invoice", "Hello"]


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "value",
    [
        *(object(), {"user": anna()}, {"due": date(2026, 1, 2)}, [object()], {1: "a"}),
        *(b"bytes", {"a"}, endless(), endless),
    ],
)
def test_no_value_of_a_providers_attribute_keeps_a_message_from_being_queued(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    message: Any = letter()
    message.metadata, message.tags = value, ["kept"]
    restored: Any = decode(encode(message))
    assert not hasattr(restored, "metadata")
    assert restored.tags == ["kept"]
    assert "metadata (not plain data)" in lines(caplog)[0]


def test_a_property_that_fails_keeps_no_message_from_being_queued() -> None:
    class Broken(EmailMultiAlternatives):
        @property
        def tags(self) -> list[str]:
            raise LookupError("no such order")

    assert not hasattr(decode(encode(Broken("Hello", "text", "a@x", ["b@x.example"]))), "tags")


def test_an_attribute_that_the_projects_own_backend_reads_is_kept_by_a_setting(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    setting(settings, MAIL_ATTRIBUTES=["tenant"])
    message: Any = letter()
    message.tenant, message.other = 7, 8
    restored: Any = decode(encode(message))
    assert restored.tenant == 7
    assert not hasattr(restored, "other")
    [line] = lines(caplog)
    assert "attributes other;" in line


def test_what_a_large_attribute_has_does_not_count_as_message(settings: Any, db_rows: None) -> None:
    setting(settings, MAIL_MAX_BYTES=2000)
    message: Any = letter()
    message.rendered_from = "x" * 5000
    message.send()
    assert Email.objects.count() == 1
