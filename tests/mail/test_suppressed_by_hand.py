"""A project that saves a suppressed address itself suppresses each of its spellings."""

import pytest
from django.db import IntegrityError

from django_dbqueue.mail.models import Suppression
from django_dbqueue.mail.models.suppression import Reason
from tests.kit.mail import sent

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")

SPELLINGS = {
    "capitals": "Anna@X.EXAMPLE",
    "spaces": "  anna@x.example ",
    "a dot at the end": "anna@x.example.",
    "quotes": '"anna"@x.example',
}


def create(address):
    return Suppression.objects.create(address=address)


def save(address):
    row = Suppression(address=address)
    row.save()
    return row


def save_again(address):
    row = create("berta@x.example")
    row.address = address
    row.save()
    return row


@pytest.mark.parametrize("by", [create, save, save_again])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_mail_to_it_is_not_sent_however_it_was_spelled(by, spelling, mailoutbox):
    row = by(SPELLINGS[spelling])
    assert row.address == "anna@x.example"
    assert sent("anna").mail_state == "failed"
    assert sent("ANNA@x.example").mail_state == "failed"
    assert mailoutbox == []


def test_a_domain_in_unicode_is_suppressed_in_punycode():
    row = create("anna@MÜLLER.example")
    for spelling in ("anna@müller.example", "anna@xn--mller-kva.example"):
        assert Suppression.objects.among([spelling]) == {spelling: row}


def test_two_spellings_are_one_address():
    create("anna@x.example")
    with pytest.raises(IntegrityError):
        create("Anna@X.example")
    assert not Suppression.objects.suppress("ANNA@x.example", Reason.BOUNCE)
