"""Providers that answer 400 to a Message-ID get none of ours; the row keeps it."""

import pytest
from anymail.backends.mailjet import EmailBackend as Mailjet

from django_dbqueue.mail.checks import check_settings
from django_dbqueue.mail.headers import REFUSED_BY
from tests.kit.jobs import fresh
from tests.kit.mail import MAILER, MEMORY, deliver_to, enqueue, letter, run_mail, setting
from tests.kit.mail_provider import POSTMARK, TAKEN, provider

pytestmark = pytest.mark.usefixtures("db_rows", "own_connections")

MAILJET = "anymail.backends.mailjet.EmailBackend"
MAILERSEND = "anymail.backends.mailersend.EmailBackend"
ANSWER = {
    MAILJET: {
        "Messages": [{"Status": "success", "To": [{"Email": "anna@x.example", "MessageID": 1}]}]
    },
    MAILERSEND: {},
    POSTMARK: TAKEN,
}
KEYS = {
    MAILJET: {"MAILJET_API_KEY": "a", "MAILJET_SECRET_KEY": "b"},
    MAILERSEND: {"MAILERSEND_API_TOKEN": "a"},
    POSTMARK: {"POSTMARK_SERVER_TOKEN": "a"},
}


class OwnMailjet(Mailjet):
    """A project's own."""


@pytest.fixture
def send_by(settings):
    """Send a message by a provider's package; the headers that reached the provider, the row."""

    def send(package, backend=None, headers=None, **more):
        with provider(200, ANSWER[package]) as (address, received):
            name = package.split(".")[2].upper()
            settings.ANYMAIL = {**KEYS[package], f"{name}_API_URL": address}
            deliver_to(settings, 0, backend or package, **more)
            email = enqueue(letter(headers=headers or {}))
            run_mail()
        return headers_in(received[0]), fresh(email)

    return send


def headers_in(sent):
    """In each provider's own spelling."""
    found = sent.get("Globals", {}).get("Headers") or sent.get("Headers") or sent.get("headers")
    if isinstance(found, list):
        found = {one.get("Name") or one["name"]: one.get("Value") or one["value"] for one in found}
    return found or {}


@pytest.mark.parametrize("package", [MAILJET, MAILERSEND])
def test_who_is_known_to_refuse_it_gets_none(send_by, package):
    headers, email = send_by(package)
    assert headers == {}
    assert email.message_id.startswith("<")


def test_nor_does_what_a_project_has_made_of_such_a_backend(send_by):
    assert send_by(MAILJET, f"{__name__}.OwnMailjet")[0] == {}


def test_other_headers_stay(send_by):
    assert send_by(MAILJET, headers={"X-A": "1"})[0] == {"X-A": "1"}


@pytest.mark.parametrize("name", ["Message-ID", "message-id"])
def test_one_that_the_project_has_set_is_left_alone(send_by, name):
    headers, email = send_by(MAILJET, headers={name: "<1@x.example>"})
    assert {known.lower(): value for known, value in headers.items()} == {
        "message-id": "<1@x.example>"
    }
    assert email.message_id == "<1@x.example>"


def test_others_get_it(send_by):
    headers, email = send_by(POSTMARK)
    assert headers == {"Message-ID": email.message_id}


def test_a_project_can_name_more_mailers_that_want_none(send_by):
    headers, email = send_by(POSTMARK, MAIL_NO_MESSAGE_ID=[MAILER or "default"])
    assert (headers, email.mail_state) == ({}, "sent")
    assert email.message_id.startswith("<")


def test_the_backends_that_are_known_to_refuse_it_exist():
    for name in REFUSED_BY:
        pytest.importorskip(name)


@pytest.mark.parametrize(("given", "found"), [(["other"], 1), ([MAILER or "default"], 0)])
def test_a_mailer_of_another_name_is_reported(settings, given, found):
    deliver_to(settings, 0, MEMORY)
    setting(settings, MAIL_NO_MESSAGE_ID=given)
    assert [one.id for one in check_settings()] == ["dbqueue_mail.E014"] * found
