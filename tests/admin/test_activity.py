"""The page of what people did."""

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry

from django_dbqueue.operate.recording import record
from tests.kit.admin_lists import NOTES, act, confirm_all, fill, text_of
from tests.kit.jobs import buried
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

ACTIVITY = "/admin/dbqueue/queue/activity/"


def test_each_deed_is_one_line_with_who_did_it_and_how_many(browser):
    fill(3)
    confirm_all(browser, "kick_selected", "?queue=q1")
    job = buried()
    act(browser, "kick_selected", job)
    page = text_of(browser.get(ACTIVITY))
    assert page.count("user0") >= 2
    assert page.count("Retry: ") == 2
    assert f'<a href="{NOTES}{job.pk}/change/">note {job.pk}</a>' in page
    assert f'<a href="{NOTES}">2 notes</a>' in page
    assert "queue=q1" in page


def test_nobody_reads_of_tables_that_they_may_not_see_nor_what_was_searched_for(people):
    somebody = people(is_superuser=True)
    job = buried(text="secret")
    act(somebody, "kick_selected", job, query="?text__startswith=secret")
    assert "Retry: " not in text_of(people("view_queue").get(ACTIVITY))
    page = text_of(people("view_queue", "view_note").get(ACTIVITY))
    assert "Retry: " in page
    assert "secret" not in page
    history = f"{NOTES}{job.pk}/history/"
    told = text_of(people("view_note").get(history))
    assert "Retry: 1 changed" in told
    assert "secret" not in told
    assert "secret" in text_of(people("view_note", "inspect_note").get(history))
    assert "secret" in text_of(people("view_queue", "view_note", "inspect_note").get(ACTIVITY))
    assert people("view_note").get(ACTIVITY).status_code == 403


def test_what_django_wrote_itself_is_told_in_its_words_and_what_is_deleted_has_no_page(people):
    browser = people(is_superuser=True)
    user, job = int(browser.session["_auth_user_id"]), buried()
    for flag, message in (
        (ADDITION, [{"added": {}}]),
        (CHANGE, [{"changed": {"fields": ["Text"]}}]),
    ):
        LogEntry.objects.log_actions(user, [job], flag, message)
    page = text_of(browser.get(ACTIVITY))
    assert '<span class="dbqueue-words">Added.</span>' in page
    assert '<span class="dbqueue-words">Changed Text.</span>' in page
    assert page.count(f"{NOTES}{job.pk}/change/") == 2
    LogEntry.objects.log_actions(user, [job], DELETION, "")
    page = text_of(browser.get(ACTIVITY))
    assert '<span class="dbqueue-words">Deletion</span>' in page
    assert page.count(f"{NOTES}{job.pk}/change/") == 2


@pytest.mark.parametrize(
    "reason",
    [
        "paper; rows: ,",
        f"3 changed{', 1 skipped: a' * 33};;",  # by a careless expression it is read for hours
        f"paper{'; rows: 1' * 40}",
        f"paper{'; failure a' * 40}",
        f"{'9' * 490} changed",
        "paper: %(reason)s %s",
    ],
)
def test_whatever_a_person_gave_as_the_reason_of_a_pause_is_read(browser, reason):
    Note.objects.create()
    sent = {"table": "queueapp.note", "queue": "default", "how": "good", "reason": reason}
    assert browser.post("/admin/dbqueue/queue/pause/", sent).status_code == 302
    for page in (ACTIVITY, "/admin/dbqueue/queue/"):
        assert reason[:20] in text_of(browser.get(page))


@pytest.mark.parametrize("before", ["x", "-1", "9" * 500, "٣", ""])
def test_no_word_in_the_address_is_an_error(browser, before):
    assert browser.get(ACTIVITY, {"before": before}).status_code == 200


def test_older_ones_are_on_further_pages(people):
    browser = people(is_superuser=True)
    user = int(browser.session["_auth_user_id"])
    job = Note.objects.create()
    for number in range(60):
        record(user, Note, [job], f"action {number:02}")
    newest = text_of(browser.get(ACTIVITY))
    assert "action 59" in newest
    assert "action 09" not in newest
    [address] = [part.partition('"')[0] for part in newest.split('href="')[1:] if "?before" in part]
    older = text_of(browser.get(address))
    assert "action 09" in older
    assert "action 10" not in older
    assert "Newest" in older
