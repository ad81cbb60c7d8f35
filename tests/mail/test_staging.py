"""What else in a message could name recipients does not get mail past the fences of staging."""

from typing import Any

import pytest
from django.core.mail import EmailMessage

from django_dbqueue.mail.deliveries import Delivery, Outcome
from django_dbqueue.mail.models import Email, Suppression
from django_dbqueue.mail.sending import connections
from django_dbqueue.states import Status
from tests.kit import mail_provider
from tests.kit.jobs import fresh
from tests.kit.mail import USING, deliver_to, run_mail
from tests.kit.smtp_server import ScriptedServer

pytestmark = pytest.mark.usefixtures("db_rows")

VICTIM = "victim@evil.example"
FENCES: dict[str, dict[str, Any]] = {
    "override": {"MAIL_OVERRIDE_RECIPIENTS": ["dev@ok.example"]},
    "allow-list": {"MAIL_ALLOWED_DOMAINS": ["ok.example"]},
}


@pytest.fixture(autouse=True)
def own_connections():
    connections.close_connections()
    yield
    connections.close_connections()


@pytest.fixture
def handed_over(settings, monkeypatch):
    """Recipients as anymail reads them, and the message; it delivers."""
    found = []
    post = mail_provider.Provider.post_to_esp

    def note(self, payload, message):
        found.append((list(payload.recipient_emails), message))
        return post(self, payload, message)

    monkeypatch.setattr(mail_provider.Provider, "post_to_esp", note)
    deliver_to(settings, 0, "tests.kit.mail_provider.Provider")
    return found


@pytest.fixture(params=FENCES)
def fenced(request, settings, handed_over):
    settings.DBQUEUE = {**settings.DBQUEUE, **FENCES[request.param]}
    return handed_over


def sent(to=("anna@ok.example", VICTIM), headers=None, deliveries=None, **extra):
    message = EmailMessage("Hi", "x", "shop@ok.example", list(to), headers=headers)
    vars(message).update(extra)
    email = Email.from_message(message, **USING)
    email.deliveries = deliveries or {}
    email.save()
    run_mail()
    return fresh(email)


@pytest.mark.parametrize(
    "extra",
    [{"personalizations": [{"to": [{"email": VICTIM}]}]}, {"recipients": {"list_id": "all"}}],
)
def test_what_cannot_be_judged_is_not_sent_and_says_why(fenced, extra):
    email = sent(esp_extra=extra)
    assert fenced == []
    assert email.status == Status.BURIED
    assert "esp_extra may name recipients of its own" in email.last_error


def entries(*to, **more):
    """As django-sendgrid-v5 reads them, which sends to the people in them alone."""
    return [{"to": [{"email": one}], "subject": "for you", **more} for one in to]


def test_personalizations_of_others_are_kept_back(settings, handed_over):
    settings.DBQUEUE = {**settings.DBQUEUE, **FENCES["allow-list"]}
    copies = {"cc": [{"email": VICTIM}], "bcc": [{"email": "Anna@OK.example", "name": "Anna"}]}
    sent(personalizations=[*entries(VICTIM), *entries("anna@ok.example", **copies)])
    [(_, message)] = handed_over
    copies["cc"] = []
    assert message.personalizations == entries("anna@ok.example", **copies)


@pytest.mark.parametrize("has_it", [False, True])
def test_personalizations_of_who_is_suppressed_or_has_it_already_are_kept_back(handed_over, has_it):
    given = entries("anna@ok.example", "VICTIM@Evil.example")
    if not has_it:
        Suppression.objects.create(address=VICTIM)
    before = {VICTIM: Delivery(Outcome.DELIVERED).stored()} if has_it else {}
    sent(personalizations=given, deliveries=before)
    [(_, message)] = handed_over
    assert message.personalizations == given[:1]


def test_personalizations_of_all_who_are_to_have_it_are_sent_as_they_are(handed_over):
    given = entries("anna@ok.example", VICTIM, headers={"X-A": "1"}, cc=None)
    sent(personalizations=given)
    sent(personalizations=[])
    assert [message.personalizations for _, message in handed_over] == [given, []]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (entries("stranger@ok.example"), "stranger@ok.example, who is none of its own recipients"),
        ([{"to": ["anna@ok.example"]}], "no list of dicts"),
        ({"to": [{"email": "anna@ok.example"}]}, "no list of dicts"),
        (["anna@ok.example"], "no list of dicts"),
        ([{"to": [{"name": "Anna"}]}], "no list of dicts"),
        ([{"subject": "to nobody"}], "nobody who is to have it now"),
    ],
)
def test_personalizations_that_cannot_be_judged_are_not_sent(handed_over, given, why):
    email = sent(personalizations=given)
    assert (handed_over, email.status) == ([], Status.BURIED)
    assert why in email.last_error


def test_personalizations_are_not_redirected_but_refused(settings, handed_over):
    settings.DBQUEUE = {**settings.DBQUEUE, **FENCES["override"]}
    email = sent(personalizations=entries("anna@ok.example"))
    assert (handed_over, email.status) == ([], Status.BURIED)
    assert "MAIL_OVERRIDE_RECIPIENTS cannot redirect" in email.last_error


def test_an_empty_one_is_sent(fenced):
    assert sent(esp_extra={}).deliveries["anna@ok.example"]["outcome"] in {
        "delivered",
        "redirected",
    }


def test_without_a_fence_it_is_sent_as_it_is(handed_over):
    sent(esp_extra={"stream": "outbound"})
    [(_, message)] = handed_over
    assert message.esp_extra == {"stream": "outbound"}


@pytest.mark.parametrize("name", ["merge_data", "merge_metadata", "merge_headers"])
def test_what_is_meant_for_others_is_kept_back(fenced, name):
    wanted = "Anna@OK.example"
    sent(**{name: {wanted: {"X-A": "1"}, VICTIM: {"X-A": "2"}}}, to=["Anna@ok.example", VICTIM])
    [(recipients, message)] = fenced
    assert recipients in (["dev@ok.example"], ["Anna@ok.example"])
    assert VICTIM not in str(getattr(message, name))
    assert (wanted in getattr(message, name)) == (recipients == ["Anna@ok.example"])


def test_what_is_meant_for_who_is_suppressed_is_kept_back_too(handed_over):
    Suppression.objects.create(address=VICTIM)
    sent(merge_data={"anna@ok.example": {"a": "1"}, VICTIM: {"a": "2"}})
    [(recipients, message)] = handed_over
    assert recipients == ["anna@ok.example"]
    assert message.merge_data == {"anna@ok.example": {"a": "1"}}


@pytest.mark.parametrize("name", ["To", "cc", "Resent-To", "Apparently-To"])
def test_a_header_that_names_others_does_not_reach_a_provider(fenced, name):
    email = sent(headers={name: f"Victim <{VICTIM}>", "X-A": "kept"})
    [(recipients, message)] = fenced
    assert recipients in (["dev@ok.example"], ["anna@ok.example"])
    assert name not in message.extra_headers
    assert message.extra_headers["X-A"] == "kept"
    assert email.deliveries["anna@ok.example"]["outcome"] in {"delivered", "redirected"}


@pytest.mark.parametrize("fence", FENCES)
def test_by_smtp_only_the_envelope_counts(settings, fence):
    server = ScriptedServer()
    deliver_to(settings, server.port, **FENCES[fence])
    headers = {"To": f"Victim <{VICTIM}>", "Cc": VICTIM}
    email = sent(headers=headers, esp_extra={"personalizations": [VICTIM]})
    server.close()
    [received] = server.received
    assert received.recipients in (["dev@ok.example"], ["anna@ok.example"])
    assert b"\nTo: Victim <victim@evil.example>" in received.content
    assert email.deliveries["anna@ok.example"]["code"] == 250
