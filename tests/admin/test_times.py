"""Lists by time: what failed, finished or came within the last minutes, or between two moments."""

import html
import re
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.admin import times
from django_dbqueue.admin.schedule import schedule
from django_dbqueue.fields import DbNow
from django_dbqueue.operate import keyset as pagination
from django_dbqueue.operate import walking
from django_dbqueue.operate.moments import now_of
from django_dbqueue.states import Status
from django_dbqueue.testing import virtual_clock
from tests.kit.admin_lists import (
    NOTES,
    act,
    act_on_all,
    confirm_all,
    keys_in,
    sent_by,
    step,
    text_of,
)
from tests.kit.clock import without_use_tz
from tests.queueapp.models import ArchivedKept, Note

pytestmark = pytest.mark.usefixtures("db_rows")

ARCHIVE = "/admin/queueapp/archivedkept/"
AGES = {"2m": 120, "30m": 1800, "5h": 5 * 3600, "3d": 3 * 86400}
SPANS = {"5m": ["2m"], "1h": ["2m", "30m"], "24h": ["2m", "30m", "5h"], "": list(AGES)}
STATES = {"failed": Status.BURIED, "finished": Status.DONE, "created": Status.READY}


def made(column, **columns):
    """A job of each age, by its name; the oldest one has the largest number."""
    now, found = now_of("default"), {}
    for name, seconds in AGES.items():
        job = Note(**{column: now - timedelta(seconds=seconds)}, text=name, **columns)
        QuerySet[Note](Note).bulk_create([job])
        found[name] = QuerySet(Note).order_by("-pk")[0].pk
    return found


@pytest.mark.each_database
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("name", STATES)
def test_a_list_shows_what_was_within_a_span(browser, name, span):
    jobs = made(f"{name}_at", status=STATES[name])
    page = text_of(browser.get(NOTES, {"state": STATES[name].value, name: span}))
    assert sorted(keys_in(page)) == sorted(jobs[age] for age in SPANS[span])


def test_what_failed_last_comes_first_and_says_when(browser):
    jobs = made("failed_at", status=Status.BURIED)
    QuerySet[Note](Note).bulk_create([Note(status=Status.BURIED), Note(status=Status.BURIED)])
    later, latest = (
        QuerySet(Note).filter(failed_at=None).order_by("pk").values_list("pk", flat=True)
    )
    page = text_of(browser.get(f"{NOTES}?state=4"))
    assert keys_in(page) == [*jobs.values(), latest, later]
    assert "Failed at" in page
    assert 'class="field-failed_at' in page
    assert "Dequeued time" not in page


def test_what_is_ready_is_not_asked_when_it_failed(browser):
    made("failed_at", status=Status.BURIED)
    page = text_of(browser.get(f"{NOTES}?state=0"))
    assert "created=1h" in page
    assert "failed=1h" not in page


@pytest.mark.parametrize("state", ["", "?state=4", "?queue=default&q=7"])
def test_what_failed_within_the_hour_is_one_click_away(browser, state):
    jobs = made("failed_at", status=Status.BURIED)
    page = text_of(browser.get(NOTES + state))
    links = re.findall(r'<a href="([^"]*failed=1h[^"]*)"[^>]*>last hour<', page)
    query = html.unescape(links[0])
    assert "state=4" in query
    if "q=" not in state:
        assert keys_in(text_of(browser.get(NOTES + query))) == [jobs["2m"], jobs["30m"]]


@pytest.mark.each_database
@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [(600, 60, ["2m"]), (86400, 600, ["30m", "5h"]), (600, None, ["2m"]), (None, 86400, ["3d"])],
)
def test_a_list_shows_what_was_between_two_moments(browser, begin, end, expected):
    jobs, now = made("failed_at", status=Status.BURIED), timezone.localtime(now_of("default"))
    times = {"failed_from": begin, "failed_until": end}
    asked = {
        name: f"{now - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}" if seconds else ""
        for name, seconds in times.items()
    }
    page = text_of(browser.get(NOTES, {"state": "4", "queue": "default", **asked}))
    assert keys_in(page) == [jobs[age] for age in expected]
    # The form still has what was asked for, and keeps the other filters.
    for value in filter(None, asked.values()):
        assert f'value="{value}"' in page
    assert '<input type="hidden" name="queue" value="default">' in page
    assert '<input type="hidden" name="state" value="4">' in page


BAD = [
    {"failed": "1y"},
    {"failed": "\u0000"},
    {"failed": "-1h"},
    {"failed_from": "yesterday"},
    {"failed_from": "2030-13-01T00:00"},
    {"failed_until": "0001-01-01T00:00+14:00"},
    {"failed_from": "2030-01-02T00:00", "failed_until": "2030-01-01T00:00"},
    {"created": "x"},
    {"created_until": "99999-01-01"},
]


@pytest.mark.parametrize("asked", BAD, ids=str)
def test_what_is_no_time_is_told_and_nothing_is_shown(browser, asked):
    made("failed_at", status=Status.BURIED)
    page = text_of(browser.get(NOTES, {"state": "4", **asked}))
    assert keys_in(page) == []
    assert "cannot use" in page


@pytest.mark.parametrize(
    ("zone", "asked"),
    [
        ("America/New_York", {"failed_from": "0001-01-01T00:00Z"}),
        ("Asia/Tokyo", {"failed_until": "9999-12-31T23:59Z"}),
    ],
)
def test_what_is_no_time_where_somebody_reads_it_is_told(browser, zone, asked):
    made("failed_at", status=Status.BURIED)
    with timezone.override(zone):
        page = text_of(browser.get(NOTES, {"state": "4", **asked}))
    assert keys_in(page) == []
    assert "cannot use" in page


@pytest.mark.each_database
def test_the_first_and_the_last_time_may_be_asked_for(browser):
    jobs = made("failed_at", status=Status.BURIED)
    asked = {"failed_from": "0001-01-03T00:00", "failed_until": "9999-12-29T00:00"}
    page = text_of(browser.get(NOTES, {"state": "4", **asked}))
    assert keys_in(page) == list(jobs.values())


@pytest.mark.parametrize("state", ["", "0", "3", "4"])
def test_a_form_that_was_sent_empty_leaves_nothing_out_in_any_tab(browser, state):
    made("created_at", status=Status(int(state or "0")), retry_at=DbNow() if state == "3" else None)
    empty = {"failed_from": "", "failed_until": "", "finished": "", "created_until": ""}
    page = text_of(browser.get(NOTES, {"state": state, **empty}))
    assert len(keys_in(page)) == len(AGES)


def test_an_action_for_all_that_match_no_time_changes_nothing(browser):
    made("failed_at", status=Status.BURIED)
    confirm_all(browser, "kick_selected", "?state=4&failed=1y")
    assert QuerySet(Note).filter(status=Status.BURIED).count() == len(AGES)
    confirm_all(browser, "kick_selected", "?state=4&failed=1h")
    assert QuerySet(Note).filter(status=Status.BURIED).count() == 2


def test_an_action_names_the_time_that_was_chosen(browser):
    made("failed_at", status=Status.BURIED)
    data = {"action": "kick_selected", "everything": "on"}
    page = text_of(browser.post(f"{NOTES}?state=4&failed=1h", data))
    assert "failed = last hour" in page
    assert "<dd>2</dd>" in page


def test_an_archive_is_shown_by_the_time_at_which_its_jobs_ended(browser):
    now = now_of("default")
    QuerySet[ArchivedKept](ArchivedKept).bulk_create(
        ArchivedKept(pk=n + 1, status=Status.DONE, finished_at=now - timedelta(seconds=seconds))
        for n, seconds in enumerate(AGES.values())
    )
    page = text_of(browser.get(f"{ARCHIVE}?finished=24h"))
    assert re.findall(r"/archivedkept/(\d+)/change/", page)[::2] in (["1", "2", "3"], ["1", "3"])
    assert "/archivedkept/4/" not in page
    assert "cannot use" in text_of(browser.get(f"{ARCHIVE}?finished=soon"))


def test_what_is_looked_for_without_an_index_is_found_by_one_more_click(browser, monkeypatch):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 5)
    monkeypatch.setattr(walking, "WALK_SECONDS", 0)
    old = made("created_at", status=Status.DONE)
    QuerySet[Note](Note).bulk_create(Note(status=Status.DONE) for _ in range(200))
    until = timezone.localtime(now_of("default")) - timedelta(hours=1)
    page = text_of(browser.get(NOTES, {"created_until": f"{until:%Y-%m-%dT%H:%M}"}))
    assert keys_in(page) == []
    assert "Nothing here" not in page
    assert "Nothing among the 5 jobs that were looked at" in page
    assert "data-dbqueue-live-box" in page
    page = text_of(browser.get(NOTES + step(page, "Look further, from job")))
    assert "data-dbqueue-live-box" not in page  # each refresh would look as long
    assert keys_in(page) == [old["3d"], old["5h"]]
    where = step(page, "Newest")
    assert where is not None
    assert "long" not in where
    assert step(page, "Look further") is None


@pytest.mark.parametrize("is_asked", [False, True])
def test_what_was_ticked_is_acted_on_however_long_somebody_looked_at_it(browser, is_asked):
    jobs = made("failed_at", status=Status.BURIED)
    chosen = QuerySet(Note).get(pk=jobs["2m"])
    query = "?state=4&failed=5m"
    if is_asked:
        assert "dbqueue-asked" in act(browser, "cancel_selected", chosen, query=query)
    QuerySet(Note).filter(pk=chosen.pk).update(failed_at=DbNow(plus=-600))
    action, more = ("cancel_selected", {"confirmed": "yes"}) if is_asked else ("kick_selected", {})
    assert "1 changed" in act(browser, action, chosen, query=query, **more)


def test_what_was_counted_is_acted_on_however_long_somebody_looked_at_it(browser):
    made("failed_at", status=Status.BURIED)
    query = "?state=4&failed=5m"
    question = sent_by(act_on_all(browser, "kick_selected", query))
    QuerySet(Note).filter(text="2m").update(failed_at=DbNow(plus=-600))
    assert "1 changed" in text_of(browser.post(NOTES + query, question, follow=True))
    assert "0 changed" in confirm_all(browser, "kick_selected", query)


@pytest.mark.parametrize("query", ["?state=4&failed=1h", "?failed=1h", "?state=0&created=5m"])
def test_the_clock_is_read_once_for_the_list_and_its_numbers(browser, monkeypatch, query):
    made("failed_at", status=Status.BURIED)
    moments = []
    monkeypatch.setattr(times, "now_of", lambda alias: moments.append(now_of(alias)) or moments[-1])
    text_of(browser.get(NOTES + query))
    assert len(moments) == 1


@pytest.mark.each_database
@pytest.mark.parametrize("hour", [0, 1])  # UTC: at the first 02:30 in Berlin, and at the second
def test_without_use_tz_delayed_jobs_are_told_by_how_far_away_they_are(hour):
    now = datetime(2026, 10, 25, hour, 30, tzinfo=UTC)
    with without_use_tz("Europe/Berlin"), virtual_clock(now):
        QuerySet[Note](Note).bulk_create(
            Note(status=Status.DELAYED, retry_at=DbNow(plus=60 * minutes))
            for minutes in (-20, 5, 50, 200)
        )
        groups = schedule(Note.objects.all(), {})
        assert [one.count for one in groups] == ["1", "0", "1", "1", "1", "0", "0"]


@pytest.mark.parametrize("use_tz", [True, False])
def test_the_groups_of_a_list_that_was_looked_at_in_part_are_told(browser, monkeypatch, use_tz):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 5)
    QuerySet[Note](Note).bulk_create(
        Note(status=Status.DELAYED, queue=f"q{n % 2}", retry_at=DbNow(plus=60 * n + 30))
        for n in range(10)
    )
    with nullcontext() if use_tz else without_use_tz("UTC"):
        page = text_of(browser.get(NOTES, {"state": "3", "queue": "q1"}))
    section = re.search(r'<section class="dbqueue-schedule".*?</section>', page, re.DOTALL)[0]
    assert re.findall(r"<dd>(.*?)</dd>", section) == ["0", "0", "2+", "0+", "0+", "0+", "0+"]
