"""What is done to mail in the admin: asked for twice where it is final, never by GET, recorded."""

import json
import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from django_dbqueue.admin import as_job, confirmation, matching
from django_dbqueue.fields import DbNow
from django_dbqueue.mail.models import ArchivedEmail, Email, Mailer
from tests.kit.admin_lists import confirm_all, sent_by
from tests.kit.jobs import fresh
from tests.kit.mail import archived, finished, queued
from tests.kit.mail_admin import (
    ACTIONS,
    ARCHIVE,
    LIST,
    MAILERS,
    act,
    in_every_state,
    page_of,
    states,
    text_of,
)

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")


def test_messages_are_failed_and_retried_by_hand(browser: Any) -> None:
    first, second = queued(), queued()
    Email.objects.claim(limit=1)[0].complete()
    page = act(browser, "bury_selected", first, second)
    assert "1 changed, 1 skipped: their state had moved on" in page
    assert states() == ["sent", "failed"]
    assert "1 changed, 1 skipped" in act(browser, "kick_selected", first, second)
    assert states() == ["sent", "unsent"]
    logged = LogEntry.objects.order_by("pk").values_list("object_id", "change_message")
    assert [(int(pk), text.partition(":")[0]) for pk, text in logged] == [
        (second.pk, "Mark as failed"),
        (second.pk, "Retry"),
    ]
    history = text_of(browser.get(f"{LIST}{second.pk}/history/"))
    assert "Mark as failed: 1 changed" in history


@pytest.mark.parametrize("across", ["0", "1"], ids=["chosen", "all that match"])
def test_whoever_cancels_mail_reads_which_it_is(browser: Any, across: str) -> None:
    waiting = queued("anna")
    page = act(browser, "cancel_selected", waiting, select_across=across)
    assert f"{waiting}: {waiting.subject}, to anna@x.example" in page


def test_sending_again_is_asked_for_twice(browser: Any) -> None:
    sent, waiting = finished(), queued()
    page = act(browser, "resend_selected", sent, waiting)
    assert "Message-ID of its own" in page
    assert page.count('name="_selected_action"') == 2
    assert Email.objects.count() == 2
    page = act(browser, "resend_selected", sent, waiting, confirmed="yes")
    new = Email.objects.get(resend_of=sent.pk)
    assert f"1 queued: email {new.pk}" in page
    assert f"mail {waiting.pk} still waits to be sent" in page
    entry = LogEntry.objects.get()
    assert entry.object_id == str(sent.pk)
    assert entry.change_message == f"Sent again as {new}; rows: 1; filters: none"


@pytest.mark.parametrize("action", ["resend_selected", "forget_selected"])
def test_of_mail_that_has_gone_it_says_that_nothing_is_done(browser: Any, action: str) -> None:
    sent = finished()
    gone = Email(pk=sent.pk)
    Email.objects.all().delete()
    page = act(browser, action, gone, confirmed="yes")
    assert re.search(r'<li class="warning">0 (queued|erased)', page)


def test_erasing_is_asked_for_twice(browser: Any) -> None:
    sent, waiting = finished(), queued()
    assert "erased for good" in act(browser, "forget_selected", sent, waiting)
    act(browser, "forget_selected", sent, waiting, confirmed="no")
    assert not fresh(sent).is_erased
    page = act(browser, "forget_selected", sent, waiting, confirmed="yes")
    assert "1 erased, 1 skipped" in page
    assert (fresh(sent).is_erased, fresh(sent).message) == (True, "")
    assert fresh(waiting).to_message().body == "text"
    assert [e.object_id for e in LogEntry.objects.all()] == [str(sent.pk)]


def test_to_erase_many_messages_takes_no_statement_of_each(browser: Any) -> None:
    def statements(number: int) -> int:
        ended = [finished() for _ in range(number)]
        with CaptureQueriesContext(connection) as captured:
            act(browser, "forget_selected", *ended, confirmed="yes")
        assert all(fresh(email).is_erased for email in ended)
        return len(captured)

    assert statements(12) == statements(2)


def test_mail_in_the_archive_is_sent_again_and_erased(browser: Any) -> None:
    old = archived(finished())
    act(browser, "resend_selected", old, url=ARCHIVE, confirmed="yes")
    assert Email.objects.get().resend_of == old.pk
    act(browser, "forget_selected", old, url=ARCHIVE, confirmed="yes")
    assert ArchivedEmail.objects.get().is_erased
    assert LogEntry.objects.count() == 2


def test_what_is_final_is_not_done_to_more_than_can_be_shown(
    browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "ROWS_MAX", 2)
    monkeypatch.setattr(as_job, "AS_JOB", [])  # as where no app has such jobs
    emails = [finished() for _ in range(3)]
    page = act(browser, "resend_selected", *emails, select_across="1", confirmed="yes")
    assert "At most 2 at once" in page
    assert Email.objects.count() == 3
    act(browser, "resend_selected", *emails[:2], confirmed="yes")
    assert Email.objects.count() == 5
    # What can be undone is done to all, and recorded once.
    LogEntry.objects.all().delete()
    monkeypatch.undo()
    confirm_all(browser, "bury_selected", url=LIST)
    Email.objects.buried().kick()
    queued()
    confirm_all(browser, "bury_selected", "?queue=default", LIST)
    assert Email.objects.buried().count() == 3
    entry = LogEntry.objects.order_by("pk").last()
    assert entry is not None
    assert (entry.object_id, entry.object_repr) == (None, "3 emails")
    assert "filters: queue=default" in entry.change_message


@pytest.mark.parametrize("where", [LIST, ARCHIVE])
def test_many_are_done_in_chunks_as_they_were_shown(
    browser: Any, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(confirmation, "MOST", 2)
    emails: list[Any] = [finished() for _ in range(5)]
    if where == ARCHIVE:
        emails = [archived(email) for email in emails]
    where += "?created=5m"
    page = act(browser, "resend_selected", select_across="1", url=where)
    assert "<dt>rows</dt><dd>5</dd>" in page
    QuerySet(type(emails[0])).update(created_at=DbNow(plus=-600))  # somebody thought it over
    [packed] = re.findall(r'name="dbqueue_keys" value="([^"]+)"', page)
    [keys] = json.loads(packed)
    assert sorted(keys) == [email.pk for email in emails]
    other = finished()
    if where.startswith(ARCHIVE):
        other = archived(other)
    asked = json.dumps([["x", *keys, 10**40]])
    sent = {"select_across": "1", "confirmed": "yes", "dbqueue_keys": asked}
    assert "5 queued" in act(browser, "resend_selected", url=where, **sent)
    resent = Email.objects.exclude(resend_of=None).values_list("resend_of", flat=True)
    assert sorted(resent) == [email.pk for email in emails]
    assert other.pk not in resent
    # Each is being sent again already.
    assert "is being sent again by" in act(browser, "resend_selected", url=where, **sent)
    assert Email.objects.exclude(resend_of=None).count() == 5
    assert "5 erased" in act(browser, "forget_selected", url=where, **sent)
    assert [one.object_repr.partition(" ")[0] for one in LogEntry.objects.all()] == ["5", "5"]


def test_a_look_at_an_address_changes_nothing(browser: Any) -> None:
    emails = in_every_state()
    before = list(QuerySet(Email).order_by("pk").values())
    for action in [*ACTIONS, "release_selected", "delete_selected"]:
        for email in (emails.sent, emails.failed, emails.late):
            query = {"action": action, "_selected_action": email.pk, "confirmed": "yes"}
            browser.get(LIST, query | {"index": "0", "post": "yes"})
            browser.get(page_of(email), query)
    Mailer.objects.named("smtp")
    for action in ("pause_selected", "resume_selected"):
        browser.get(MAILERS, {"action": action, "_selected_action": Mailer.objects.get().pk})
    assert list(QuerySet(Email).order_by("pk").values()) == before
    assert Mailer.objects.get().paused_until is None
    assert not LogEntry.objects.exists()


def test_a_page_offers_what_makes_sense_in_its_state(browser: Any) -> None:
    emails = in_every_state()
    for name, offered in {
        "unsent": {"bury", "cancel", "reschedule", "prioritize", "move"},
        "claimed": {"bury", "release", "cancel"},
        "late": {"kick", "bury", "cancel", "reschedule", "prioritize", "move"},
        "sent": {"resend", "forget", "cancel"},
        "failed": {"resend", "kick", "kick_with", "prioritize", "move", "forget", "cancel"},
        "old": {"resend", "forget"},
    }.items():
        email = getattr(emails, name)
        page = text_of(browser.get(page_of(email)))
        buttons = re.findall(r'name="action" value="(\w+)_selected" formaction="([^"]+)"', page)
        assert {action for action, _ in buttons} == offered, name
        assert {url for _, url in buttons} == {ARCHIVE if name == "old" else LIST}
        assert f'name="_selected_action" value="{email.pk}"' in page


def test_a_token_is_asked_for(browser: Any) -> None:
    email = finished()
    browser.handler.enforce_csrf_checks = True
    data = {"action": "resend_selected", "_selected_action": [email.pk], "confirmed": "yes"}
    assert browser.post(LIST, data).status_code == 403
    assert Email.objects.count() == 1


def test_a_mail_is_cancelled_from_its_page(browser: Any) -> None:
    email, other = queued(), queued()
    asked = act(browser, "cancel_selected", email, dbqueue_page=email.pk)
    assert "taken out for good" in asked
    sent = sent_by(asked)
    assert "1 changed" in text_of(browser.post(LIST, sent, follow=True))
    assert list(Email.objects.all()) == [other]
