"""Where a message is erased its subject is erased with it, which may tell as much of a person."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from django_dbqueue.mail.models import ArchivedEmail, Email
from django_dbqueue.mail.privacy.erase import Eraser, erase
from tests.kit.jobs import fresh, overwrite, table
from tests.kit.mail import archived, finished, letter

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")

TELLING = "Your HIV test"
ADMIN = "/admin/dbqueue_mail/"


def told():
    return finished(letter(subject=TELLING))


@pytest.mark.parametrize("place", [lambda mail: mail, archived], ids=["queue table", "archive"])
def test_erasing_a_message_erases_its_subject(place):
    mail = place(told())
    assert erase([mail])
    mail = fresh(mail)
    assert (mail.message, mail.subject, mail.is_erased) == ("", "", True)


@pytest.mark.parametrize("place", [lambda mail: mail, archived], ids=["queue table", "archive"])
def test_subjects_are_kept_as_long_as_messages(settings, place):
    settings.DBQUEUE = {**settings.DBQUEUE, "MAIL_KEEP_BODIES": 3600}
    old, young = place(told()), place(told())
    overwrite(old, finished_at=timezone.now() - timedelta(hours=2))
    assert Eraser()(table(Email)) == 1
    assert [(mail.subject, mail.is_erased) for mail in map(fresh, (old, young))] == [
        ("", True),
        (TELLING, False),
    ]


def test_forgetting_an_address_erases_a_subject_that_was_left_when_its_message_was_erased():
    mail = finished(letter("anna@x.example", "berta@x.example", subject=TELLING))
    overwrite(mail, is_erased=True, message="")
    call_command("forget_address", "anna@x.example")
    mail = fresh(mail)
    assert (mail.recipients, mail.subject) == ("berta@x.example", "")


@pytest.mark.parametrize("model", [Email, ArchivedEmail])
def test_the_admin_says_that_a_subject_was_erased(browser, model):
    mail, unnamed = finished(letter(subject=TELLING)), finished(letter(subject=""))
    if model is ArchivedEmail:
        mail, unnamed = archived(mail), archived(unnamed)
    erase([mail])
    page = f"{ADMIN}{model._meta.model_name}/"
    rows = browser.get(page).content.decode()
    assert "(erased)" in rows
    assert "(no subject)" in rows
    assert TELLING not in rows
    assert "(erased)" in browser.get(f"{page}{mail.pk}/change/").content.decode()
    question = {"action": "resend_selected", "_selected_action": [mail.pk, unnamed.pk]}
    asked = browser.post(page, question).content.decode()
    assert f"{mail}: (erased), to" in asked
    assert f"{unnamed}: (no subject), to" in asked
