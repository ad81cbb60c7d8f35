"""What is not asked again for every message, and how soon a change is heeded all the same."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_dbqueue.mail.models import Mailer, Suppression
from django_dbqueue.mail.models import mailer as mailers
from django_dbqueue.mail.models.suppression import Reason
from tests.kit.mail import MAILER, queued, run_mail, sent, setting
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture(autouse=True)
def nothing_known():
    forget()
    yield
    forget()


def forget():
    mailers.at_work.forget()
    mailers.known.forget()


def test_ten_mails_ask_for_their_mailer_as_often_as_one_and_for_suppressions_once_each(
    server, monkeypatch
):
    monkeypatch.setattr(mailers, "CACHE_SECONDS", 60)
    sent("anna")
    forget()
    with CaptureQueriesContext(connection) as asked:
        sent("anna")
    for _ in range(10):
        queued("berta")
    forget()
    with CaptureQueriesContext(connection) as asked_by_ten:
        run_mail()
    mailer, suppressions = Mailer._meta.db_table, Suppression._meta.db_table
    # Whether it rests, and whether it is in the list.
    assert count(asked, mailer) == count(asked_by_ten, mailer) == 2
    assert (count(asked, suppressions), count(asked_by_ten, suppressions)) == (1, 10)


@pytest.mark.parametrize("limits", [{}, {MAILER or "default": {"hour": 5}}])
def test_a_mailer_is_in_the_list_once_mail_was_sent_by_it_whether_it_has_a_limit_or_not(
    server, settings, limits
):
    setting(settings, MAIL_LIMITS=limits)
    queued("anna")
    assert not Mailer.objects.exists()
    run_mail()
    assert [one.name for one in Mailer.objects.all()] == [MAILER or "default"]


def test_a_pause_that_is_over_costs_nothing_more(server, monkeypatch):
    monkeypatch.setattr(mailers, "CACHE_SECONDS", 60)
    Mailer.objects.pause(MAILER, 0, "421 later")
    Mailer.objects.update(paused_until=timezone.now() - timedelta(hours=1))
    sent("anna")
    with CaptureQueriesContext(connection) as asked:
        assert sent("anna").mail_state == "sent"
    assert count(asked, Mailer._meta.db_table) == 0


def count(captured, table):
    return sum(table in query["sql"] for query in captured.captured_queries)


@pytest.mark.parametrize("by_saving", [False, True])
def test_an_address_that_this_process_suppresses_gets_no_mail_from_then_on(server, by_saving):
    assert sent("anna").mail_state == "sent"
    if by_saving:
        Suppression(address="anna@x.example").save()
    else:
        Suppression.objects.suppress("anna@x.example", Reason.BOUNCE)
    assert sent("anna").mail_state == "failed"
    assert server.got("anna") == 1


def test_a_mailer_that_this_process_pauses_rests_from_then_on(server):
    Mailer.objects.named(MAILER)
    assert sent("anna").mail_state == "sent"
    Mailer.objects.pause(MAILER, 60, "a test")
    email = sent("berta")
    assert email.mail_state.startswith("scheduled for")
    assert server.got("berta") == 0


def test_what_other_processes_suppress_is_heeded_at_once(server):
    assert sent("anna").mail_state == "sent"
    Suppression.objects.bulk_create([Suppression(address="anna@x.example")])
    assert sent("anna").mail_state == "failed"


def test_a_pause_by_other_processes_is_heeded_a_second_later(server):
    Mailer.objects.named(MAILER)
    assert sent("anna").mail_state == "sent"
    Mailer.objects.update(paused_until=timezone.now() + timedelta(hours=1))
    wait_until(lambda: sent("berta").mail_state.startswith("scheduled for"))
