"""What is done to more mail than one press may change: sent again, erased, marked as sent."""

import tracemalloc
from datetime import timedelta

import pytest

from django_dbqueue.admin import matching
from django_dbqueue.bulk import running
from django_dbqueue.bulk.models import BulkAction
from django_dbqueue.mail.bulk_verbs import resend
from django_dbqueue.mail.deliveries import Outcome
from django_dbqueue.mail.models import ArchivedEmail, Email
from django_dbqueue.operate.by_row import Doer
from django_dbqueue.operate.moments import now_of
from django_dbqueue.states import Status
from tests.bulk.test_admin import BUTTON, form_of, question_for
from tests.kit.bulk import asked, entries, worked_off
from tests.kit.jobs import fresh
from tests.kit.mail import archived, finished, letter
from tests.kit.mail_admin import ARCHIVE, LIST, text_of

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")
FEW = 5


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(matching, "ROWS_MAX", FEW)
    monkeypatch.setattr(running, "BATCH_ROWS", 4)


def sent(number=FEW + 2):
    return [finished(letter("anna")) for _ in range(number)]


@pytest.mark.parametrize("place", [LIST, ARCHIVE])
def test_any_number_is_sent_again_by_a_job(browser, place):
    old = sent()
    if place == ARCHIVE:
        old = [archived(one) for one in old]
    page = text_of(browser.post(place, question_for("resend_selected")))
    assert BUTTON in page
    assert 'type="submit" value="Send again"' not in page
    browser.post(place, form_of(page))
    row = worked_off(BulkAction.objects.get())
    assert row.counts == {"changed": len(old), "skipped": 0}
    again = Email.objects.filter(status=Status.READY)
    assert sorted(again.values_list("resend_of", flat=True)) == sorted(one.pk for one in old)
    [entry] = entries()
    assert entry.startswith(f"Send again: {len(old)} changed; bulk action {row.pk}; rows: ")
    assert "Send again" in text_of(browser.get(f"/admin/dbqueue_bulk/bulkaction/{row.pk}/change/"))


def test_a_batch_that_is_repeated_sends_nothing_twice():
    old, doer = sent(3), Doer("anna", now_of("default") - timedelta(seconds=1))
    assert str(resend(old, doer)) == "3 changed"
    for new in Email.objects.claim(limit=3):
        new.complete()
    assert resend(old, doer).changed == 0
    assert Email.objects.count() == 6
    assert resend(old, Doer("anna", now_of("default"))).changed == 3


def test_what_came_into_the_archive_after_the_question_is_not_sent_again():
    shown = archived(finished(letter("anna")))
    finished_before, finished_since = finished(letter("bert")), finished(letter("carl"))
    row = asked("resend", model=ArchivedEmail)
    archived(finished_since, finished_at=row.shown_at + timedelta(seconds=1))
    archived(finished_before, retry_at=row.shown_at + timedelta(seconds=1))
    assert worked_off(row).counts == {"changed": 1, "skipped": 0}
    assert [one.resend_of for one in Email.objects.all()] == [shown.pk]


def test_many_long_messages_are_sent_again_few_at_a_time():
    old = [finished(letter("anna", body="x" * 100_000)) for _ in range(60)]
    doer, emails = Doer("anna", now_of("default")), list(Email.objects.defer("message"))
    tracemalloc.start()
    try:
        assert resend(emails, doer).changed == len(old)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 * 100_000 * 2
    assert Email.objects.exclude(resend_of=None).count() == 60


def test_messages_are_erased_and_what_is_in_doubt_is_settled_by_jobs():
    old = sent(3)
    assert worked_off(asked("forget", model=Email)).counts == {"changed": 3, "skipped": 0}
    assert all(fresh(one).is_erased for one in old)
    finished(letter("anna"), failed=True, anna=Outcome.IN_DOUBT)
    assert worked_off(asked("settle", model=Email)).counts == {"changed": 1, "skipped": 3}
