"""The mailer that is asked for a turn, and paused, is the one that delivers."""

import django
import pytest
from django.core.management import call_command

from django_dbqueue.mail.checks import check_settings
from django_dbqueue.mail.models import Email, Mailer
from django_dbqueue.states import Status
from tests.kit.jobs import fresh
from tests.kit.mail import letter, queue_into_memory, run_mail

pytestmark = pytest.mark.usefixtures("db_rows")

DELIVERS = "smtp" if django.VERSION >= (6, 1) else "default"


def queued(*names, using=""):
    """As by one's own code, or before the project had any MAILERS."""
    email = Email.from_message(letter(*names), using=using)
    email.save()
    return email


def test_the_mailer_of_a_mail_that_names_none_is_held_to_its_limits(server, settings):
    settings.DBQUEUE = {**settings.DBQUEUE, "MAIL_LIMITS": {DELIVERS: {"day": 1}}}
    first, second = queued("anna"), queued("berta")
    run_mail()
    assert (fresh(first).status, fresh(second).status) == (Status.DONE, Status.DELAYED)
    assert len(server.received) == 1


def test_the_mailer_of_a_mail_that_names_none_is_the_one_that_is_paused(server):
    queued("busy")
    run_mail()
    assert [mailer.name for mailer in Mailer.objects.all()] == [DELIVERS]
    other = queued("anna", using="" if DELIVERS == "default" else DELIVERS)
    run_mail()
    assert (fresh(other).status, fresh(other).attempts) == (Status.DELAYED, 0)


def test_a_pause_holds_mail_that_names_no_mailer(server):
    Mailer.objects.pause(DELIVERS, 600, "by hand")
    email = queued("anna")
    run_mail()
    assert (fresh(email).status, server.received) == (Status.DELAYED, [])


def test_a_dry_run_names_the_mailer_that_delivers(server, capsys):
    Mailer.objects.pause(DELIVERS, 600, "by hand")
    email = queued("anna")
    call_command("send_queued_mail", "--dry-run")
    said = capsys.readouterr().out
    assert f"{email.pk} by {DELIVERS}: to anna@x.example; its mailer rests" in said


@pytest.mark.skipif(DELIVERS == "default", reason="needs MAILERS")
def test_one_mailer_has_one_connection_whether_it_is_named_or_not(server):
    queued("anna")
    queued("berta", using=DELIVERS)
    run_mail()
    assert (len(server.received), server.connections) == (2, 1)


@pytest.mark.skipif(DELIVERS == "default", reason="needs MAILERS")
def test_limits_of_an_entry_that_queues_are_an_error_as_nothing_would_be_held_to_them(settings):
    queue_into_memory(settings)
    settings.DBQUEUE |= {"MAIL_LIMITS": {"default": {"second": 14}}}
    [error] = check_settings()
    assert (error.id, "'default'" in error.msg) == ("dbqueue_mail.E007", True)
    settings.DBQUEUE |= {"MAIL_LIMITS": {DELIVERS: {"second": 14}}}
    assert check_settings() == []
