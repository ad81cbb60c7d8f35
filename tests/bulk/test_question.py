"""What a bulk action takes over from the question: what was asked for, and the moment of it."""

from datetime import datetime

import pytest
from django.utils.translation import override

from django_dbqueue.admin import matching
from django_dbqueue.bulk.models import BulkAction
from django_dbqueue.mail.models import Email
from django_dbqueue.operate import walking
from django_dbqueue.operate.moments import now_of
from django_dbqueue.states import Status
from tests.bulk.test_admin import BUTTON, form_of, question_for
from tests.kit.admin_lists import NOTES, fill, text_of
from tests.kit.bulk import entries, rows, worked_off
from tests.kit.jobs import fresh
from tests.kit.mail import finished
from tests.kit.mail_admin import LIST
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows", "queueing"), pytest.mark.each_database]
TOO_OLD = "That page is too old. Nothing was changed: ask once more."
LAST_DAY = "?state=0&created=24h"


def asked_about(browser, action, url):
    return text_of(browser.post(url, question_for(action)))


@pytest.fixture
def few_at_once(monkeypatch):
    monkeypatch.setattr(matching, "ROWS_MAX", 3)


@pytest.fixture
def short_looks(monkeypatch):
    """After which the question has not seen all rows."""
    monkeypatch.setattr(matching, "LONG_WALK_SECONDS", 0)
    monkeypatch.setattr(walking, "CHUNK_WINDOW_ROWS", 5)


@pytest.mark.parametrize("action", ["kick_selected", "move_selected"])
def test_jobs_count_until_the_moment_of_the_question(browser, few_at_once, action):
    fill(4, [Status.BURIED])
    before = now_of("default")
    sent = form_of(asked_about(browser, action, NOTES))
    after = now_of("default")
    browser.post(NOTES, sent | {"dbqueue-queue": "far"})
    until = BulkAction.objects.get().shown_at
    assert before <= until <= after
    assert until == datetime.fromisoformat(sent["dbqueue_until"])


@pytest.mark.parametrize("until", ["", "x", "2026-01-01"])
def test_without_that_moment_nothing_is_asked_for(browser, few_at_once, until):
    fill(4, [Status.BURIED])
    sent = form_of(asked_about(browser, "kick_selected", NOTES)) | {"dbqueue_until": until}
    assert TOO_OLD in text_of(browser.post(NOTES, sent, follow=True))
    assert not BulkAction.objects.exists()
    assert Note.objects.buried().count() == 4


@pytest.mark.parametrize("action", ["bury_selected", "move_selected"])
def test_a_job_goes_on_where_the_question_could_not_look_at_all_rows(browser, short_looks, action):
    fill(12, [Status.READY], was_now=True)
    page = asked_about(browser, action, NOTES + LAST_DAY)
    assert "not all rows could be looked at" in page
    assert BUTTON in page
    browser.post(NOTES + LAST_DAY, form_of(page) | {"dbqueue-queue": "far"})
    assert worked_off(BulkAction.objects.get()).counts["changed"] == 12


def test_so_it_does_with_mail(browser, short_looks):
    old = [finished() for _ in range(12)]
    url = f"{LIST}?queue=default&state=2"
    page = asked_about(browser, "resend_selected", url)
    assert "not all rows could be looked at" in page
    sent = form_of(page)
    without = {name: value for name, value in sent.items() if name != "dbqueue_as_job"}
    browser.post(url, without)
    again = Email.objects.exclude(resend_of=None)
    assert again.count() == 5
    browser.post(url, sent)
    worked_off(BulkAction.objects.get())
    assert {one.resend_of for one in again.all()} == {one.pk for one in old}
    assert again.count() == 12


def test_the_log_is_in_english_whatever_language_is_spoken(browser, few_at_once):
    rows(4, Status.BURIED)
    with override("de"):
        browser.post(NOTES, form_of(asked_about(browser, "cancel_selected", NOTES)))
        row = worked_off(BulkAction.objects.get())
    [entry] = entries()
    assert entry.startswith(f"Cancel: 4 changed; bulk action {row.pk}; rows: 4 (")
    assert fresh(row).state == "done"
