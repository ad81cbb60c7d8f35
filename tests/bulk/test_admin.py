"""An action on more jobs than one press changes is done by a job: asked for, linked to, shown."""

import html
import re
from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet

from django_dbqueue.admin import as_job, matching
from django_dbqueue.bulk.models import BulkAction
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from tests.kit.admin_lists import NOTES, text_of
from tests.kit.bounds import limits
from tests.kit.bulk import TABLE, asked, entries, rows, worked_off
from tests.kit.failures import failed, kind
from tests.kit.jobs import fresh
from tests.kit.overview import a_worker
from tests.kit.pseudo import escapes, pseudo_language, stored_texts
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.one_database]
PAGES = "/admin/dbqueue_bulk/bulkaction/"
BUTTON = "Do it as a job"
FAILURES = "/admin/dbqueue/queue/failures/"
FEW = 5


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(matching, "ROWS_MAX", FEW)


def form_of(page):
    """What its form sends by the button for a job."""
    [form] = re.findall(r'<form method="post">(.*?)</form>', page, re.DOTALL)
    found = dict(re.findall(r'name="([^"]*)" value="([^"]*)"', form))
    return {name: html.unescape(value) for name, value in found.items()}


def ask(browser, action="kick_selected", query="?state=4", url=NOTES, **values):
    """The page of the job, or the list, after the question was answered by it."""
    page = text_of(browser.post(url + query, question_for(action)))
    sent = form_of(page) | {"action": action, **values}
    return browser.post(url + query, sent, follow=True)


def question_for(action):
    return {"action": action, "everything": "on", "index": "0"}


def changed_by(row):
    return worked_off(row).counts["changed"]


def test_all_that_match_are_changed_and_the_question_leads_to_the_page_of_the_job(browser):
    rows(FEW + 3, Status.BURIED, queue="q")
    rows(2, Status.BURIED, queue="other")
    response = ask(browser, query="?state=4&queue=q")
    row = BulkAction.objects.get()
    assert response.redirect_chain == [(f"{PAGES}{row.pk}/change/", 302)]
    page = text_of(response)
    link = f'<a href="{PAGES}{row.pk}/change/">bulk action {row.pk}</a>'
    assert f"Retry: {link} does it to all that match." in page
    assert "state = buried, queue = q" in page
    assert "user0" in page
    assert (row.verb, row.target, row.database) == ("kick", "queueapp.note", "default")
    assert row.choice == {"state": "buried", "queue": "q"}
    assert changed_by(row) == FEW + 3
    page = text_of(browser.get(f"{PAGES}{row.pk}/change/"))
    assert f"{FEW + 3} of {FEW + 3} (100 %): {FEW + 3} changed" in page
    assert sorted(Note.objects.values_list("status", "queue").distinct()) == [
        (Status.READY, "q"),
        (Status.BURIED, "other"),
    ]


def test_what_comes_after_the_question_was_shown_is_left(browser):
    rows(FEW + 3, Status.BURIED)
    page = text_of(browser.post(f"{NOTES}?state=4", question_for("kick_selected")))
    late = failed()
    browser.post(f"{NOTES}?state=4", form_of(page))
    assert changed_by(BulkAction.objects.get()) == FEW + 3
    assert fresh(late).status == Status.BURIED


def test_the_last_hour_is_the_one_that_was_shown(browser):
    rows(FEW + 1)
    old = Note.objects.create()
    QuerySet(Note).filter(pk=old.pk).update(created_at=old.created_at - timedelta(hours=2))
    ask(browser, "bury_selected", "?created=1h")
    assert BulkAction.objects.get().choice.keys() == {"created_at"}
    assert changed_by(BulkAction.objects.get()) == FEW + 1
    assert fresh(old).status == Status.READY


@pytest.mark.parametrize(
    ("action", "values", "said"),
    [
        ("move_selected", {"queue": "far"}, "Move to far"),
        ("prioritize_selected", {"priority": "7"}, "Prioritize to 7"),
        ("kick_with_selected", {"time_to_run": "9"}, "Retry with 9 s to run"),
        (
            "kick_with_selected",
            {"due": "2100-01-01T00:00"},
            "Retry at Jan. 1, 2100, midnight",
        ),
        ("cancel_selected", {}, "Cancel"),
    ],
)
def test_what_the_action_was_told_the_job_is_told(browser, action, values, said):
    rows(FEW + 1, Status.BURIED)
    given = {f"dbqueue-{name}": value for name, value in values.items()}
    page = text_of(ask(browser, action, **given))
    row = BulkAction.objects.get()
    assert said.partition(" at ")[0] in page
    assert row.values.keys() == values.keys()
    assert changed_by(row) == FEW + 1


def test_a_value_that_is_none_is_asked_for_again(browser):
    rows(FEW + 1, Status.BURIED)
    page = text_of(ask(browser, "move_selected", **{"dbqueue-queue": " x"}))
    assert "To queue: a name of at most" in page
    assert BUTTON in page
    assert not BulkAction.objects.exists()


@pytest.mark.parametrize(
    ("number", "query", "is_offered"),
    [
        (FEW, "?state=4", False),
        (FEW + 1, "?state=4", True),
        (FEW + 1, "", True),
        (FEW + 1, "?state=4&attempts=0", False),
        (FEW + 1, "?state=4&created=24h", True),
        (FEW + 1, "?state=4&created_from=2020-01-01T00:00", True),
    ],
)
def test_it_is_offered_where_more_match_than_are_changed_at_once(
    browser, number, query, is_offered
):
    rows(number, Status.BURIED)
    page = text_of(browser.post(NOTES + query, question_for("kick_selected")))
    assert (BUTTON in page) is is_offered


def test_it_is_not_offered_for_chosen_rows_nor_without_the_app(browser, monkeypatch):
    rows(FEW + 1, Status.BURIED)
    keys = list(Note.objects.values_list("pk", flat=True))
    data = {"action": "cancel_selected", "_selected_action": keys}
    assert BUTTON not in text_of(browser.post(NOTES, data))
    token = form_of(text_of(browser.post(NOTES, question_for("cancel_selected"))))
    monkeypatch.setattr(as_job, "AS_JOB", [])
    assert BUTTON not in text_of(browser.post(NOTES, question_for("cancel_selected")))
    page = text_of(browser.post(NOTES, token, follow=True))
    assert "That page is too old. Nothing was changed: ask once more." in page
    assert Note.objects.count() == FEW + 1


def test_an_admin_that_shows_some_rows_only_offers_it_for_none(browser, monkeypatch):

    rows(FEW + 1, Status.BURIED)
    mine = type(admin.site.get_model_admin(Note))
    whole = mine.get_queryset
    monkeypatch.setattr(
        mine, "get_queryset", lambda self, request: whole(self, request).exclude(text="secret")
    )
    assert BUTTON not in text_of(browser.post(NOTES, question_for("cancel_selected")))


def test_what_was_offered_for_one_action_is_taken_for_no_other(people):
    rows(FEW + 1, Status.BURIED)
    browser = people("view_note", "retry_note")
    token = form_of(text_of(browser.post(NOTES, question_for("kick_selected"))))
    browser = people("view_note", "bury_note", "delete_note", "view_bulkaction")
    for action in ("kick_selected", "cancel_selected"):
        browser.post(NOTES, token | {"action": action})
    browser.post(NOTES, token | {"action": "cancel_selected", "dbqueue_as_job": "x"})
    assert not BulkAction.objects.exists()
    assert Note.objects.filter(status=Status.BURIED).count() == FEW + 1


def test_who_may_not_see_bulk_actions_asks_for_them_all_the_same(people):
    rows(FEW + 1, Status.BURIED)
    response = ask(people("view_note", "retry_note"))
    row = BulkAction.objects.get()
    assert response.redirect_chain == [(f"{NOTES}?state=4", 302)]
    assert f"Retry: bulk action {row.pk} does it to all that match." in text_of(response)


def test_a_row_is_not_edited_nor_added_by_those_who_may_do_all_to_bulk_actions(people):
    row = asked("kick")
    browser = people(*(f"{verb}_bulkaction" for verb in BulkAction._meta.default_permissions))
    page = text_of(browser.get(f"{PAGES}{row.pk}/change/"))
    assert 'name="verb"' not in page
    browser.post(f"{PAGES}{row.pk}/change/", {"verb": "cancel", "_save": "Save"})
    assert fresh(row).verb == "kick"
    assert browser.get(f"{PAGES}add/").status_code == 403


def test_twice_the_same_button_is_one_job(browser):
    rows(FEW + 1, Status.BURIED)
    sent = form_of(text_of(browser.post(f"{NOTES}?state=4", question_for("kick_selected"))))
    first, second = (browser.post(f"{NOTES}?state=4", sent) for _ in range(2))
    assert first["Location"] == second["Location"]
    assert BulkAction.objects.count() == 1


def test_a_queue_of_bulk_actions_that_is_full_says_so(browser):
    rows(FEW + 1, Status.BURIED)
    asked("kick")
    with limits(TABLE, max_length=1):
        page = text_of(ask(browser))
    assert "may hold 1" in page
    assert BulkAction.objects.count() == 1


def test_the_question_says_when_no_living_worker_serves_bulk_actions(browser):
    rows(FEW + 1, Status.BURIED)
    said = "No living worker serves the table of such jobs"
    assert said in text_of(browser.post(NOTES, question_for("kick_selected")))
    a_worker(serves=["queueapp.note"])
    assert said in text_of(browser.post(NOTES, question_for("kick_selected")))
    Worker.objects.all().delete()
    a_worker(serves=[TABLE])
    assert said not in text_of(browser.post(NOTES, question_for("kick_selected")))


def test_the_log_and_the_page_of_what_people_did_name_the_person(browser):
    rows(FEW + 1, Status.BURIED)
    ask(browser, "cancel_selected")
    row = BulkAction.objects.get()
    worked_off(row)
    [entry] = entries()
    assert entry.startswith(f"Cancel: {FEW + 1} changed; bulk action {row.pk}; rows: {FEW + 1} (")
    page = text_of(browser.get("/admin/dbqueue/queue/activity/"))
    assert f"Cancel: {FEW + 1} changed; bulk action {row.pk}" in page
    assert User.objects.get().username in page


def test_nothing_of_the_question_and_of_what_follows_escapes_gettext(browser):
    rows(FEW + 1, Status.BURIED)
    for action in ("kick_selected", "cancel_selected"):
        with pseudo_language():
            page = text_of(browser.post(NOTES, question_for(action)))
            after = text_of(browser.post(NOTES, form_of(page), follow=True))
        data = stored_texts() | {"UTC", "Beanstalk", "user0"}
        assert escapes(page, data) | escapes(after, data) == set()


def test_failures_of_one_kind_are_retried_by_a_job(browser):
    for _ in range(FEW + 2):
        failed()
    page = text_of(browser.get(FAILURES))
    hidden = dict(re.findall(r'name="(table|failure|until)" value="([^"]*)"', page))
    page = text_of(browser.post("/admin/dbqueue/queue/retry/", hidden))
    late = failed()
    response = browser.post("/admin/dbqueue/queue/retry/", form_of(page), follow=True)
    row = BulkAction.objects.get()
    assert f"bulk action {row.pk}" in text_of(response)
    assert row.choice == {"state": "buried", "failure": kind().fingerprint}
    assert changed_by(row) == FEW + 2
    assert fresh(late).status == Status.BURIED
