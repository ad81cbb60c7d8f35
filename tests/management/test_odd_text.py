"""A queue's name that is no UTF-8, which only a hand can write on SQLite, keeps nobody from seeing,
and acting on, the other jobs and its own."""

import re

import pytest
from django.db.models import QuerySet

from django_dbqueue.operate import acting
from django_dbqueue.states import Status
from tests.kit.admin_lists import NOTES, act, act_on_all, confirm_all, sent_by, text_of
from tests.kit.broken_rows import edit
from tests.kit.command_line import as_json, dbqueue
from tests.kit.failures import failed, kind
from tests.kit.overview import OVERVIEW
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.any_database]


@pytest.fixture
def jobs(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 1)
    jobs = [failed() for _ in range(3)]
    edit(jobs[1], "queue = CAST(x'ff41' AS TEXT)")
    return jobs


def count(status):
    return QuerySet(Note).filter(status=status).count()


def test_it_is_listed_retried_and_cancelled_at_the_terminal(jobs):
    assert "\\xffA" in dbqueue("failed")
    assert {one["queue"] for one in as_json("failed")["failed"]} == {"default", "\\xffA"}
    assert as_json("retry", "queueapp.note", "--error", "no file")["changed"] == 3
    assert as_json("prioritize", "queueapp.note", "--to", "5", "--yes")["changed"] == 3
    assert as_json("move", "queueapp.note", "--to", "other", "--yes")["changed"] == 3
    edit(jobs[0], "queue = CAST(x'ff41' AS TEXT)")
    assert as_json("cancel", "queueapp.note", "--yes")["changed"] == 3


def test_it_is_retried_with_those_that_failed_alike(browser, jobs):
    page = text_of(browser.get(f"{OVERVIEW}failures/"))
    until = re.search(r'name="until" value="([^"]+)"', page)[1]
    asked = {"table": "queueapp.note@default", "failure": kind().fingerprint, "until": until}
    question = sent_by(text_of(browser.post(f"{OVERVIEW}retry/", asked)))
    page = text_of(browser.post(f"{OVERVIEW}retry/", question, follow=True))
    assert "Retry: 3 changed." in page
    assert count(Status.READY) == 3


def test_it_is_acted_on_in_its_list(browser, jobs):
    assert "3 changed" in act(browser, "kick_selected", *jobs)
    edit(jobs[1], "queue = CAST(x'ff41' AS TEXT)")
    values = {"dbqueue-priority": "7"}
    assert "3 changed" in confirm_all(browser, "prioritize_selected", "?state=0", **values)
    question = sent_by(act_on_all(browser, "bury_selected", "?state=0"))
    assert "3 changed" in text_of(browser.post(f"{NOTES}?state=0", question, follow=True))
