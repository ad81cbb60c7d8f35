"""No mail leaves MAIL_ALLOWED_DOMAINS, however its recipients are written."""

import json

import pytest

from django_dbqueue.mail.models import Email
from django_dbqueue.mail.sending import connections
from django_dbqueue.mail.sending.envelope import is_allowed
from tests.kit import mail_provider
from tests.kit.jobs import fresh
from tests.kit.mail import HAS_MAILERS, queued, run_mail

pytestmark = pytest.mark.usefixtures("db_rows")

PROVIDER = "tests.kit.mail_provider.Provider"


@pytest.fixture
def handed_over(settings, monkeypatch):
    """The addresses that anymail reads out of the recipients; it takes several in one text."""
    found = []
    post = mail_provider.Provider.post_to_esp

    def note(self, payload, message):
        found.extend(payload.recipient_emails)
        return post(self, payload, message)

    monkeypatch.setattr(mail_provider.Provider, "post_to_esp", note)
    if HAS_MAILERS:
        settings.MAILERS = {"smtp": {"BACKEND": PROVIDER}}
    using = {"MAIL_USING": "smtp"} if HAS_MAILERS else {"MAIL_DELIVERY_BACKEND": PROVIDER}
    settings.DBQUEUE = {**using, "MAIL_ALLOWED_DOMAINS": ["ok.example"]}
    connections.close_connections()
    yield found
    connections.close_connections()


def written_by_hand(email, **lists):
    """Queueing refuses several addresses in one text; a hand may have stored them."""
    stored = json.loads(email.message) | lists
    Email.objects.filter(pk=email.pk).update(message=json.dumps(stored))


@pytest.mark.parametrize(
    "to",
    [
        "victim@evil.example, me@ok.example",
        "me@ok.example, victim@evil.example",
        "team: victim@evil.example, me@ok.example;",
        "victim@evil.example <me@ok.example>, victim@evil.example",
        "victim@evil.example",
        "victim@notok.example",
    ],
)
def test_each_of_several_addresses_in_one_text_has_to_be_allowed(handed_over, to):
    email = queued()
    written_by_hand(email, cc=[to])
    run_mail()
    assert handed_over == []
    assert {one["outcome"] for one in fresh(email).deliveries.values()} == {"not allowed"}


def test_those_that_are_allowed_get_it(handed_over):
    named = '"x@evil.example, y" <c@ok.example>'
    email = queued("anna")
    written_by_hand(email, cc=["a@ok.example, Doe <b@sub.OK.example>", named])
    run_mail()
    assert handed_over == ["a@ok.example", "b@sub.OK.example", "c@ok.example"]
    assert fresh(email).mail_state == "partly sent"


@pytest.mark.parametrize("to", ["", "nobody", "@", "me@ok.example@evil.example"])
def test_what_is_no_address_is_not_allowed(handed_over, to):
    assert not is_allowed(to)
