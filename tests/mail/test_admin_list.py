"""The list of mails in the admin: states, tabs, the retry schedule, and what it costs."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.models import Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.operate import keyset as pagination
from tests.kit.mail import archived, enqueue, finished, letter, queued
from tests.kit.mail_admin import (
    ARCHIVE,
    LIST,
    MAILERS,
    SUPPRESSIONS,
    in_every_state,
    text_of,
)
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")


def test_the_list_shows_states_and_errors_and_loads_no_message(browser: Any) -> None:
    EmailBackend().send_messages([letter("<b>x</b>@x.example", subject="<script>"), letter()])
    job = Email.objects.claim(limit=1)[0]
    job.fail(ConnectionResetError("peer <hung> up"), 600)
    with CaptureQueriesContext(connection) as queries:
        page = text_of(browser.get(LIST))
    for shown in ("unsent", "retry at 2", "&lt;script&gt;", "peer &lt;hung&gt; up", "2 emails"):
        assert shown in page
    assert "<script>x" not in page
    selects = [q["sql"] for q in queries if "dbqueue_mail_email" in q["sql"]]
    assert len([sql for sql in selects if "subject" in sql]) == 1
    for sql in selects:
        assert not re.search(r"\bmessage[`\"]", sql)


def test_the_list_filters_by_state_and_queue_and_finds_a_message_id(browser: Any) -> None:
    EmailBackend(queue="bulk").send_messages([letter(subject="bulky")])
    letter(subject="plain").send()
    email = Email.objects.get(subject="plain")
    for query, found in [
        ({"queue": "bulk"}, ["bulky"]),
        ({"state": "0", "queue": "default"}, ["plain"]),
        ({"state": "4"}, []),
        ({"q": email.message_id}, ["plain"]),
        ({"q": "Pla"}, ["plain"]),
        ({"q": "lain"}, []),
    ]:
        page = text_of(browser.get(LIST, query))
        shown = [name for name in ("bulky", "plain") if f">{name}</a>" in page]
        assert shown == found, query


def tabs_in(page: str) -> dict[str, tuple[str, str]]:
    """By name: the number and the link."""
    found = re.findall(r'<a href="([^"]*)"[^>]*>([^<]+) <span class="dbqueue-count">([^<]*)<', page)
    return {name: (count, url.replace("&amp;", "&")) for url, name, count in found}


def columns(page: str) -> list[str]:
    found = re.findall(r'<th[^>]* class="[^"]*column-(\w+)', page)
    return [name for name in found if name != "checkbox"]


def test_whose_a_mail_is_is_shown_of_what_is_claimed_alone(browser: Any) -> None:
    """So that all columns are seen at once."""
    in_every_state()
    of_all = ["mail_state", "subject_line", "to", "error", "attempts", "created_at"]
    for state in ("", "?state=0", "?state=2", "?state=3"):
        assert columns(text_of(browser.get(f"{LIST}{state}"))) == of_all, state
    assert columns(text_of(browser.get(f"{LIST}?state=4"))) == [*of_all[:-1], "failed_at"]
    of_claimed = ["mail_state", "subject_line", "to", "attempts", "held_by", "dequeued_time"]
    assert columns(text_of(browser.get(f"{LIST}?state=1"))) == of_claimed


def test_the_state_is_chosen_by_the_tabs_alone(browser: Any) -> None:
    in_every_state()
    page = text_of(browser.get(LIST))
    assert "By queue" in page
    assert "By state" not in page


def test_the_box_for_all_that_match_has_its_label_in_every_theme(browser: Any) -> None:
    queued("anna")
    box = r'<label>All that match <input type="checkbox" name="everything"[^>]*></label>'
    assert re.search(box, text_of(browser.get(LIST)))


def test_the_tabs_speak_of_mail_and_count_each_state(browser: Any) -> None:
    in_every_state()
    queued()
    tabs = tabs_in(text_of(browser.get(LIST)))
    assert {name: count for name, (count, _) in tabs.items()} == {
        "all": "6",
        "unsent": "2",
        "claimed": "1",
        "due later": "1",
        "failed": "1",
        "sent": "1",
    }
    page = text_of(browser.get(LIST + tabs["failed"][1]))
    assert re.search('class="dbqueue-selected" aria-current="page">failed ', page)
    assert "1 email" in page
    archive = tabs_in(text_of(browser.get(ARCHIVE)))
    assert (archive["all"][0], archive["sent"][0], archive["failed"][0]) == ("1", "1", "0")


def test_a_tab_keeps_the_other_filters_and_counts_by_them(browser: Any) -> None:
    enqueue(letter(), queue="bulk")
    in_every_state()
    for query in ({"queue": "default", "p": "1"}, {"queue": "default", "state": "4"}):
        tabs = tabs_in(text_of(browser.get(LIST, query)))
        assert (tabs["unsent"][0], tabs["all"][0]) == ("1", "5")
        assert "queue=default" in tabs["unsent"][1]
        assert "state=0" in tabs["unsent"][1]
        assert "p=" not in tabs["unsent"][1]
        assert "state" not in tabs["all"][1]
    assert tabs_in(text_of(browser.get(LIST, {"queue": "bulk"})))["unsent"][0] == "1"


@pytest.mark.parametrize("url", [LIST, ARCHIVE])
def test_no_more_than_so_many_are_counted(
    browser: Any, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(pagination, "COUNTED_ROWS_MAX", 3)
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 3)
    emails = [finished() for _ in range(5)]
    if url == ARCHIVE:
        for email in emails:
            archived(email)
    with CaptureQueriesContext(connection) as queries:
        tabs = tabs_in(text_of(browser.get(url)))
    assert (tabs["all"][0], tabs["sent"][0]) == ("3+", "3+")
    # In the archive nobody knows what lies beyond the newest ones.
    assert tabs["failed"][0] == ("0+" if url == ARCHIVE else "0")
    counting = [q["sql"] for q in queries if "COUNT(" in q["sql"] and "dbqueue_mail_" in q["sql"]]
    assert counting
    assert [sql for sql in counting if "LIMIT" not in sql and ">=" not in sql] == []


def test_every_queue_table_has_tabs_in_its_own_words(browser: Any) -> None:
    Note.objects.create()
    tabs = tabs_in(text_of(browser.get("/admin/queueapp/note/")))
    assert list(tabs) == ["all", "ready", "claimed", "delayed", "buried", "done"]
    assert tabs["ready"][0] == "1"


def schedule_in(page: str) -> dict[str, str]:
    return dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page))


def test_the_retry_schedule_groups_what_waits_by_when_it_is_due(browser: Any) -> None:
    for minutes in (-5, 0.5, 5, 7, 30, 300, 1000, 3000):
        email = queued(subject=f"in {minutes}")
        due = timezone.now() + timedelta(minutes=minutes)
        QuerySet(Email).filter(pk=email.pk).update(status=3, retry_at=due, attempts=1)
    queued()
    page = text_of(browser.get(LIST, {"state": "3"}))
    assert schedule_in(page) == {
        "overdue": "1",
        "within a minute": "1",
        "within 10 minutes": "2",
        "within an hour": "1",
        "within 6 hours": "1",
        "within a day": "1",
        "later": "1",
    }
    shown = [float(minutes) for minutes in re.findall(r">in ([\d.-]+)</a>", page)]
    assert shown == sorted(shown)
    assert len(shown) == 8
    assert schedule_in(text_of(browser.get(LIST))) == {}
    assert schedule_in(text_of(browser.get(LIST, {"state": "3", "queue": "none"}))) == {}
    late = schedule_in(text_of(browser.get(LIST, {"state": "3", "queue": "default"})))
    assert late["within 10 minutes"] == "2"


@pytest.mark.parametrize("query", [{}, {"queue": "default", "state": "3"}, {"queue": "x"}])
def test_the_number_of_queries_does_not_depend_on_the_number_of_mails(
    browser: Any, query: dict[str, str]
) -> None:
    def cost(url: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            text_of(browser.get(url, query))
        return len(queries)

    def add(number: int) -> None:
        for _ in range(number):
            archived(finished())
            queued()
            Mailer.objects.named(f"m{Mailer.objects.count()}")
            Suppression.objects.suppress(f"a{Suppression.objects.count()}@x", Reason.BY_HAND)
        Email.objects.claim(limit=1)[0].fail(TimeoutError(), 5)

    add(2)
    urls = (LIST,) if "queue" in query else (LIST, ARCHIVE, MAILERS, SUPPRESSIONS)
    few = [cost(url) for url in urls]
    add(12)
    assert [cost(url) for url in urls] == few
    assert few[0] < 40
