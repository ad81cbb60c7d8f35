"""Pausing and resuming queues in the admin."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

from django_dbqueue.admin import pages
from django_dbqueue.admin import pause as admin_pause
from django_dbqueue.admin.pause import MINUTES, MINUTES_MAX, REASON, UNTIL, PauseForm
from django_dbqueue.management import pause as command_pause
from django_dbqueue.models import Queue
from tests.kit.clock import without_use_tz
from tests.kit.command_line import dbqueue
from tests.kit.overview import CANARY, NOTE, OVERVIEW, text_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
PAUSE, RESUME = f"{OVERVIEW}pause/", f"{OVERVIEW}resume/"


def pause(client, queue="default", **data):
    given = {"table": NOTE, "queue": queue, "how": "minutes", "minutes": "5", "reason": "tea"}
    return client.post(PAUSE, given | data)


def left():
    """Seconds until the pause of the only queue ends."""
    until = Queue.objects.get().paused_until
    return (until - timezone.now()).total_seconds()


def in_minutes(minutes):
    moment = timezone.now() + timedelta(minutes=minutes)
    local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    return local.strftime("%Y-%m-%dT%H:%M")


def test_a_pause_for_minutes_ends_by_itself(browser):
    assert pause(browser).url == OVERVIEW
    assert Note.objects.paused_queues() == {"default"}
    assert 240 < left() <= 301
    assert Queue.objects.get().pause_reason == "tea"


def test_a_pause_until_a_moment_ends_then(browser):
    assert pause(browser, how="until", until=in_minutes(90), minutes="").status_code == 302
    assert 88 * 60 < left() <= 91 * 60


def test_a_moment_is_as_far_away_as_it_was_when_it_was_checked():
    """Else it could be over once it is used."""
    form = PauseForm({"how": "until", "until": in_minutes(2), "reason": "tea"})
    assert form.is_valid()
    assert len({form.seconds() for _ in range(3)}) == 1


@pytest.fixture
def evening(monkeypatch):
    """18:00 in Berlin, before the night in which an hour comes twice, of a naive project."""

    class Evening(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 10, 24, 16, tzinfo=UTC).astimezone(tz or zone)

    zone = ZoneInfo("Europe/Berlin")
    for module in (admin_pause, command_pause):
        monkeypatch.setattr(module, "datetime", Evening)
    monkeypatch.setattr(timezone, "now", lambda: Evening.now().replace(tzinfo=None))
    with without_use_tz(zone.key):
        yield


def test_a_pause_over_a_night_of_25_hours_is_told_and_meant_by_the_local_clock(evening, browser):
    form = PauseForm({"how": "until", "until": "2026-10-25T08:00", "reason": "tea"})
    assert form.is_valid()
    assert form.seconds() == 15 * 3600
    page = text_of(browser.get(pause(browser, minutes=str(15 * 60)).url))
    assert f"Paused {NOTE}, queue default, until 2026-10-25 08:00: tea." in page
    told = dbqueue("pause", "queueapp.Note", "--for=15h")
    assert told == "queueapp.note paused until 2026-10-25 08:00\n"


def test_a_pause_for_good_lasts_until_it_is_resumed(browser):
    pause(browser, how="good", minutes="nonsense that nobody asks for")
    assert Note.objects.paused_queues() == set()
    pause(browser, how="good")
    assert Note.objects.paused_queues() == {"default"}
    assert "until somebody resumes it: tea" in text_of(browser.get(OVERVIEW))
    response = browser.post(RESUME, {"table": NOTE, "queue": "default"}, follow=True)
    assert "Resumed queueapp.note, queue default." in text_of(response)
    assert Note.objects.paused_queues() == set()


def test_both_are_in_the_log_with_queue_end_and_reason(browser):
    LogEntry.objects.all().delete()
    pause(browser, how="good", reason=CANARY, queue="a")
    browser.post(RESUME, {"table": NOTE, "queue": "a"})
    entries = [
        (e.object_repr, e.change_message.partition("; rows")[0])
        for e in LogEntry.objects.order_by("pk")
    ]
    assert entries == [
        ("queueapp_note:a", f"Paused {NOTE}, queue a, until somebody resumes it: {CANARY}"),
        ("queueapp_note:a", f"Resumed {NOTE}, queue a"),
    ]
    row = Queue.objects.get()
    history = text_of(browser.get(f"{OVERVIEW}{row.pk}/history/"))
    assert "<script>alert" not in history + text_of(browser.get("/admin/"))


WRONG = {
    "no reason": ({"reason": " "}, "Reason: say why."),
    "a long reason": ({"reason": "x" * 501}, REASON),
    "no minutes": ({"minutes": ""}, MINUTES),
    "no number": ({"minutes": "1e9"}, MINUTES),
    "a very long number": ({"minutes": "9" * 5000}, MINUTES),
    "zero": ({"minutes": "0"}, MINUTES),
    "more than a year": ({"minutes": str(MINUTES_MAX + 1)}, MINUTES),
    "no moment": ({"how": "until"}, UNTIL),
    "no such day": ({"how": "until", "until": "2031-02-31T10:00"}, UNTIL),
    "the past": ({"how": "until", "until": "2020-01-01T10:00"}, UNTIL),
    "the end of time": ({"how": "until", "until": "9999-12-31T23:59"}, UNTIL),
    "no way": ({"how": "never"}, "Select a valid choice"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_by_field_and_limit_and_changes_nothing(browser, name):
    data, problem = WRONG[name]
    text = text_of(pause(browser, **data))
    assert str(problem) in text
    assert "Nothing was changed." in text
    assert not Queue.objects.exists()


def test_the_form_is_shown_for_a_queue_of_any_name(browser):
    text = text_of(browser.get(PAUSE, {"table": NOTE, "queue": CANARY}))
    assert "<script>alert" not in text
    assert pause(browser, CANARY).status_code == 302
    assert Note.objects.paused_queues() == {CANARY}
    assert "<script>alert" not in text_of(browser.get(OVERVIEW))


@pytest.mark.parametrize("where", [("no.such", "a"), (NOTE, ""), (NOTE, "x" * 201), (NOTE, " a ")])
def test_what_is_no_queue_is_not_found(browser, where):
    table, queue = where
    assert browser.get(PAUSE, {"table": table, "queue": queue}).status_code == 404
    assert pause(browser, queue, table=table).status_code == 404
    assert browser.post(RESUME, {"table": table, "queue": queue}).status_code == 404
    assert not Queue.objects.exists()


def test_it_takes_a_post_with_a_token(browser, people):
    where = {"table": NOTE, "queue": "default"}
    assert browser.get(RESUME, where).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = browser.cookies
    assert pause(strict).status_code == 403
    assert strict.post(RESUME, where).status_code == 403
    assert browser.get(PAUSE, {**where, "how": "good", "reason": "x"}).status_code == 200
    assert not Queue.objects.exists()


def test_who_may(people, client):
    where = {"table": NOTE, "queue": "default"}
    reader = people("view_queue")
    assert reader.get(PAUSE, where).status_code == 403
    assert pause(reader).status_code == 403
    assert reader.post(RESUME, where).status_code == 403
    assert not Queue.objects.exists()
    assert pause(people("pause_queue")).url == "/admin/"
    assert client.post(RESUME, where).status_code == 302
    client.logout()
    assert pause(client).url.startswith("/admin/login/")
    assert client.post(RESUME, where).url.startswith("/admin/login/")


@pytest.mark.parametrize("is_list", [False, True])
def test_the_pages_above_are_named_as_djangos_own_pages_name_them(browser, monkeypatch, is_list):
    """Django 6.1 has them in a list, for which alone its style sheet is made."""
    monkeypatch.setattr(pages, "CRUMBS_IN_LIST", is_list)
    text = text_of(browser.get(PAUSE, {"table": NOTE, "queue": "default"}))
    tag = "ol" if is_list else "div"
    crumbs = re.search(rf'<{tag} class="breadcrumbs">.*?</{tag}>', text, re.DOTALL)[0]
    assert re.findall(r'href="([^"]+)"', crumbs) == ["/admin/", "/admin/dbqueue/", OVERVIEW]
    assert crumbs.count("<li") == (4 if is_list else 0)
    assert f"Pause {NOTE}, queue default" in crumbs
