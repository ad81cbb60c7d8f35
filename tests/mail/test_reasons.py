"""Why a mail waits, or was given up, in words of mail's own."""

import pytest

from django_dbqueue.diagnose import explain
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.mail.conf import mailer_of
from django_dbqueue.mail.deliveries import Outcome
from django_dbqueue.mail.models import Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from tests.kit.mail import MAILER, enqueue, finished, letter, queued, setting
from tests.kit.mail_admin import page_of, text_of

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")


def said(email):
    return " ".join(explain(table_of(Email, "default"), email.pk).sentences)


def limited(settings):
    name = mailer_of(MAILER)
    setting(settings, MAIL_LIMITS={name: {"day": 1}})
    return Mailer.objects.named(name)


def test_mail_waits_while_its_mailer_rests_and_the_server_is_not_quoted():
    name = mailer_of(MAILER)
    assert "rests" not in said(queued())
    Mailer.objects.pause(name, 240, "421 s3cret")
    assert f"Its mailer, {name}, rests for 4 min" in said(queued())
    assert "s3cret" not in said(queued())


def test_mail_waits_while_the_limit_is_used_up(settings):
    mailer = limited(settings)
    email = queued()
    assert "limit" not in said(email)
    Mailer.objects.ask(mailer.name, 1, "default")
    assert "(1 a day), is used up for now" in said(queued())


def test_limits_that_make_no_sense_are_told_as_such(settings):
    mailer = limited(settings)
    setting(settings, MAIL_LIMITS={mailer.name: {"fortnight": 1}})
    assert "a period is one of second" in said(queued())


def test_suppressed_recipients_are_counted():
    email = enqueue(letter("anna", "bert"))
    Suppression.objects.suppress("anna@x.example", Reason.BOUNCE)
    assert "Recipients that are suppressed, and get nothing: 1 of 2." in said(email)


def test_what_became_of_its_recipients_is_counted_and_nobody_named():
    words = {
        Outcome.REFUSED: "Recipients refused by the server: 1 of 2.",
        Outcome.SUPPRESSED: "Recipients suppressed: 1 of 2.",
        Outcome.NOT_ALLOWED: "Recipients not allowed here (MAIL_ALLOWED_DOMAINS): 1 of 2.",
        Outcome.DEFERRED: "Recipients put off by the server: 1 of 2.",
        Outcome.IN_DOUBT: "It is in doubt whether a recipient got it",
    }
    for outcome, sentence in words.items():
        email = finished(letter("a", "b"), failed=True, a=outcome, b=Outcome.DELIVERED)
        text = said(email)
        assert sentence in text
        assert "Recipients who have got it, and do not get it again: 1 of 2." in text
        assert "x.example" not in text


def test_the_page_tells_it_in_mails_own_words_and_what_a_server_said_by_permission_only(people):
    email = finished(letter("anna"), failed=True, anna=Outcome.REFUSED)
    pages = [
        text_of(people(*names).get(page_of(email)))
        for names in (["view_email"], ["view_email", "inspect_email"])
    ]
    for page in pages:
        assert 'dbqueue-state-failed">failed</span>' in page
        assert "Recipients refused by the server: 1 of 1." in page
    assert [">said</td>" in page for page in pages] == [False, True]
    assert ["no such user" in page for page in pages] == [False, True]
