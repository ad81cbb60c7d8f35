"""All that match: what was counted when somebody was asked is what it is done to."""

import html
import json
import re
from uuid import uuid4

import pytest
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.test import RequestFactory

from django_dbqueue.admin import matching
from django_dbqueue.operate import acting, walking
from django_dbqueue.states import Status
from tests.kit.admin_lists import NOTES, act_on_all, confirm_all, fill, sent_by, text_of
from tests.kit.failures import failed, kind
from tests.queueapp.models import Note, Uuid

pytestmark = pytest.mark.usefixtures("db_rows")


def counted(page):
    return dict(re.findall(r"<dt>([a-z]+)</dt><dd>([^<]*)</dd>", page))


def answer(browser, page, query="", **values):
    return text_of(browser.post(NOTES + query, sent_by(page) | values, follow=True))


@pytest.mark.each_database
@pytest.mark.parametrize("action", ["cancel_selected", "move_selected"])
@pytest.mark.parametrize("state", ["", "&state=4"])
def test_what_fails_while_somebody_is_asked_is_left_as_it_is(browser, action, state):
    shown, query = {failed().pk for _ in range(3)}, f"?failure={kind().fingerprint}{state}"
    page = act_on_all(browser, action, query)
    assert counted(page)["buried"] == "3"
    later = {failed().pk for _ in range(4)}
    assert "3 changed" in answer(browser, page, query, **{"dbqueue-queue": "other"})
    left = QuerySet(Note).filter(status=Status.BURIED, queue="default")
    assert set(left.values_list("pk", flat=True)) == later
    assert not shown & later


def test_a_yes_to_no_question_is_asked_about(browser):
    fill(3, [Status.BURIED])
    for hidden in ({}, {"dbqueue_keys": ""}, {"dbqueue_until": ""}):
        page = act_on_all(browser, "kick_selected", "?state=4", confirmed="yes", **hidden)
        assert counted(page) == {"buried": "3"}
    assert QuerySet(Note).filter(status=Status.BURIED).count() == 3


@pytest.mark.parametrize("until", ["x", "2026-01-01", "0001-01-01T00:00:00+14:00"])
def test_a_moment_that_is_none_stands_for_no_job(browser, until):
    fill(3, [Status.BURIED])
    sent = {"confirmed": "yes", "dbqueue_until": until, "dbqueue-queue": "other"}
    assert "0 changed" in act_on_all(browser, "move_selected", "?state=4", **sent)


@pytest.mark.parametrize("action", ["move_selected", "prioritize_selected"])
def test_a_filter_that_cannot_be_read_stands_for_no_job(browser, action):
    fill(3, [Status.BURIED])
    moment = "2100-01-01T00:00:00+00:00"
    sent = {"confirmed": "yes", "dbqueue_until": moment, "dbqueue-queue": "other"}
    sent |= {"dbqueue-priority": "5"}
    page = act_on_all(browser, action, "?state=4&failed=x..y", **sent)
    assert "Nothing was changed" in page or "0 changed" in page


def test_a_filter_without_an_index_is_counted_until_nothing_is_left(browser, monkeypatch):
    monkeypatch.setattr(walking, "CHUNK_WINDOW_ROWS", 5)
    rare = fill(3, [Status.READY], attempts=7)
    fill(30, [Status.READY])
    page = act_on_all(browser, "bury_selected", "?state=0&attempts=7")
    assert counted(page) == {"ready": "3"}
    assert "3 changed" in answer(browser, page, "?state=0&attempts=7")
    buried = QuerySet(Note).filter(status=Status.BURIED)
    assert set(buried.values_list("pk", flat=True)) == {job.pk for job in rare}


def test_where_not_all_could_be_looked_at_the_question_says_so_and_no_more_is_done(
    browser, monkeypatch
):
    monkeypatch.setattr(walking, "CHUNK_WINDOW_ROWS", 5)
    monkeypatch.setattr(matching, "LONG_WALK_SECONDS", 0)
    fill(30, [Status.READY], attempts=7)
    page = act_on_all(browser, "bury_selected", "?state=0&attempts=7")
    assert counted(page) == {"ready": "5+"}
    assert "not all rows could be looked at" in page
    assert "5 changed" in answer(browser, page, "?state=0&attempts=7")
    page = act_on_all(browser, "bury_selected", "?state=0&attempts=8")
    assert counted(page) == {"ready": "0+"}
    assert 'type="submit" value="Bury"' not in page


def test_what_is_counted_of_one_state_is_no_room_for_the_next_one(browser, monkeypatch):
    monkeypatch.setattr(matching, "ROWS_MAX", 5)
    for state in (Status.READY, Status.DELAYED, Status.BURIED):
        fill(3, [state])
    page = act_on_all(browser, "cancel_selected", "?")
    assert sorted(counted(page).values()) == ["2+", "3"]
    [keys] = sent_by(page)["dbqueue_keys"]
    assert [len(group) for group in json.loads(html.unescape(keys))] == [3, 2]


def test_a_key_of_any_text_is_told_as_it_is():
    groups = [["a,b", 'c;"d'], ["\u00e9"]]
    request = RequestFactory().post("/", matching.Found(groups).hidden())
    assert matching.packed_keys(request, Session) == groups
    keys = [uuid4(), uuid4()]
    request = RequestFactory().post("/", matching.Found([keys]).hidden())
    assert matching.packed_keys(request, Uuid) == [keys]
    odd_keys = RequestFactory().post("/", {"dbqueue_keys": json.dumps([["\ud800", "a\0b"]])})
    assert matching.packed_keys(odd_keys, Session) == [[]]
    for odd in ("x", "7", "[7]", "[" * 100_000):
        assert matching.packed_keys(RequestFactory().post("/", {"dbqueue_keys": odd}), Note) == []


@pytest.mark.each_database
@pytest.mark.parametrize("window", [3, 1000])
def test_each_press_goes_on_where_the_last_one_ended(browser, monkeypatch, window):
    """Also of what stays in the list, since it has the value by then."""
    monkeypatch.setattr(matching, "ROWS_MAX", 4)
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    monkeypatch.setattr(walking, "CHUNK_WINDOW_ROWS", window)
    fill(9, [Status.READY, Status.BURIED], was_now=True)
    for changed in (4, 4, 2):
        assert f"{changed} changed" in confirm_all(
            browser, "prioritize_selected", **{"dbqueue-priority": "1"}
        )
    assert set(QuerySet(Note).values_list("priority", flat=True)) == {1}
    for changed, is_more in ((4, True), (4, True), (4, False), (0, False)):
        page = confirm_all(browser, "move_selected", **{"dbqueue-queue": "q1"})
        assert f"{changed} changed" in page
        assert ("More match" in page) == is_more


def test_a_press_ends_after_some_seconds_and_says_so(browser, monkeypatch):
    monkeypatch.setattr(matching, "PRESS_SECONDS", 0)
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    monkeypatch.setattr(matching, "CHUNK_ROWS", 2)
    fill(5, [Status.READY])
    for action, values in (
        ("prioritize_selected", {"dbqueue-priority": "7"}),
        ("bury_selected", {}),
    ):
        said = [confirm_all(browser, action, **values) for _ in range(3)]
        assert ["2 changed" in one for one in said] == [True, True, False]
        assert ["It stopped after 0 s" in one for one in said] == [True, True, False]
        assert 'class="success">' in said[2]


@pytest.mark.each_database
def test_what_has_the_value_already_is_not_read_again(browser, monkeypatch):
    fill(200, [Status.READY])
    QuerySet(Note).update(priority=7)
    QuerySet(Note).filter(queue="q1").update(priority=0)
    question, made = act_on_all(browser, "prioritize_selected"), []
    real = Note.from_db.__func__  # type: ignore[attr-defined]

    def from_db(cls, *args, **given):
        made.append(args)
        return real(cls, *args, **given)

    monkeypatch.setattr(Note, "from_db", classmethod(from_db))
    data = sent_by(question) | {"dbqueue-priority": "7"}
    assert browser.post(NOTES, data).status_code == 302
    assert not QuerySet(Note).exclude(priority=7).exists()
    assert len(made) < 200  # the page of the list is among them
