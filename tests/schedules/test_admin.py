"""Schedules in the admin."""

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry

from django_dbqueue.schedules.firing import run_due, run_now
from django_dbqueue.schedules.models import Schedule, Tick, as_utc
from django_dbqueue.testing import virtual_clock
from tests.kit.schedules import START, again, scheduled
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

LIST = "/admin/dbqueue_schedules/schedule/"
FORM = {
    "name": "nightly",
    "timing": "0 3 * * *",
    "time_zone": "Europe/Berlin",
    "kind": "table",
    "target": "queueapp.Note",
    "arguments": '{"text": "hello"}',
    "missed": "latest",
    "catch_up_within": "86400",
    "overlap": "allow",
}


@pytest.fixture(autouse=True)
def clock():
    with virtual_clock(START) as clock:
        yield clock


def page_of(schedule):
    return f"{LIST}{schedule.pk}/change/"


def act(browser, action, *rows):
    data = {"action": action, "_selected_action": [row.pk for row in rows]}
    return browser.post(LIST, data, follow=True).content.decode()


def test_a_schedule_is_added_and_changed(people):
    codenames = ("add_schedule", "change_schedule", "view_schedule", "add_note")
    browser = people(*codenames)
    assert browser.post(f"{LIST}add/", FORM).status_code == 302
    schedule = Schedule.objects.get()
    assert (schedule.arguments, schedule.queue, schedule.priority) == (
        {"text": "hello"},
        None,
        None,
    )
    assert as_utc(schedule.next_tick) == START.replace(day=16, hour=2)
    changed = FORM | {"timing": "every 2 h", "queue": "slow", "priority": "7"}
    changed |= {"starts_at": "2031-01-15 00:00:00"}  # in the project's own time zone
    assert browser.post(page_of(schedule), changed).status_code == 302
    schedule = again(schedule)
    assert (schedule.timing, schedule.queue, schedule.priority) == ("every 2 h", "slow", 7)
    hours = as_utc(schedule.next_tick) - as_utc(schedule.starts_at)
    assert hours % timedelta(hours=2) == timedelta(0)
    assert as_utc(schedule.next_tick) - START <= timedelta(hours=2)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("timing", "often", "cron expression"),
        ("time_zone", "Mars/Base", "IANA name"),
        ("target", "shop.Gone", "no model"),
        ("target", "", "required"),
        ("arguments", '{"texts": 1}', "no column"),
        ("arguments", "{", "valid JSON"),
        ("queue", "a\tb", "control characters"),
        ("priority", "-1", "between 0"),
        ("catch_up_within", "0", "greater than or equal to 1"),
        ("kind", "pigeon", "valid choice"),
        ("starts_at", "0001-01-01 00:00:00", "years 1900 to 9900"),
        ("starts_at", "9999-12-31 23:59:59", "years 1900 to 9900"),
    ],
)
def test_what_is_wrong_stands_next_to_its_field(browser, field, value, words):
    response = browser.post(f"{LIST}add/", FORM | {field: value})
    assert response.status_code == 200
    errors = response.context["adminform"].form.errors
    assert words in " ".join(errors[field])
    assert not Schedule.objects.exists()


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("timing", ["0 3 * * *", "*/5 * * * *", "every 3650 d"])
def test_the_first_and_the_last_year_of_a_start_are_fine_in_any_zone(
    browser, settings, zone, timing
):
    settings.TIME_ZONE = zone
    for start in ("1900-01-01 00:00:00", "9900-12-31 23:59:59"):
        given = FORM | {"name": start, "timing": timing, "time_zone": zone, "starts_at": start}
        assert browser.post(f"{LIST}add/", given).status_code == 302
        assert browser.get(page_of(Schedule.objects.get(name=start))).status_code == 200
    assert browser.get(LIST).status_code == 200


def test_who_may_not_add_a_job_may_not_have_it_added(people):
    browser = people("add_schedule", "view_schedule")
    page = browser.post(f"{LIST}add/", FORM).content.decode()
    assert "you lack the permission queueapp.add_note" in page
    assert not Schedule.objects.exists()


def test_the_page_shows_the_last_ten_ticks_with_their_jobs_and_their_states(browser, clock):
    schedule = scheduled(timing="every 1 h", overlap="skip")
    for _ in range(12):
        clock.move(3600)
        run_due()
    Note.objects.all().bury()
    clock.move(3600)
    run_due()
    run_now(schedule, "<b>anna</b>")
    Note.objects.order_by("pk").first().delete()
    page = browser.get(page_of(schedule)).content.decode()
    [cells] = re.findall(r"<th>note</th></tr>(.*?)</table>", page, re.DOTALL)
    assert cells.count("<tr>") == 10
    second, third = Note.objects.order_by("pk")
    link = '<a href="/admin/queueapp/note/{}/change/">queueapp.Note {}</a>: ready'
    assert link.format(second.pk, second.pk) in cells
    assert link.format(third.pk, third.pk) in cells
    assert "asked for by &lt;b&gt;anna&lt;/b&gt;" in cells
    assert "skipped: job" in cells


def test_a_job_that_is_gone_is_said_to_be(browser, clock):
    schedule = scheduled(timing="every 1 h")
    clock.move(3600)
    run_due()
    Note.objects.all().cancel()
    assert "gone, or in the archive" in browser.get(page_of(schedule)).content.decode()


def test_who_may_not_see_the_jobs_gets_no_links_to_them(people, clock):
    schedule = scheduled(timing="every 1 h")
    clock.move(3600)
    run_due()
    page = people("view_schedule").get(page_of(schedule)).content.decode()
    assert "queueapp.Note" in page
    assert "/admin/queueapp/note/" not in page


def test_a_broken_one_says_why_and_its_page_can_still_be_seen(browser, clock):
    schedule = scheduled(timing="every 1 h")
    clock.move(3600)
    run_due()
    Schedule.objects.update(target="shop.Gone", timing="every 1 h")
    Tick.objects.update(target="shop.Gone")
    clock.move(3600)
    run_due()
    for url in (LIST, page_of(schedule)):
        page = browser.get(url)
        assert page.status_code == 200
        assert "broken: target: no model &#x27;shop.Gone&#x27;" in page.content.decode()


def test_schedules_are_paused_resumed_and_run_now(people, clock):
    browser = people("view_schedule", "pause_schedule", "run_schedule")
    schedule = scheduled(timing="every 1 h")
    assert "Paused: nightly" in act(browser, "pause_selected", schedule)
    assert again(schedule).is_paused
    assert again(schedule).next_tick is None
    assert "Resumed: nightly" in act(browser, "resume_selected", schedule)
    assert as_utc(again(schedule).next_tick) == START.replace(hour=13)
    assert "Enqueued a job of: nightly" in act(browser, "run_selected", schedule)
    assert Note.objects.count() == 1
    assert Tick.objects.get().note.startswith("asked for by user0, in the admin")
    said = [entry.change_message.partition(";")[0] for entry in LogEntry.objects.order_by("pk")]
    assert said == ["Paused", "Resumed", "Enqueued a job of"]


def test_of_one_that_has_gone_it_says_that_nothing_is_done(browser):
    page = act(browser, "pause_selected", Schedule(pk=10**6))
    assert '<li class="warning">Paused: none</li>' in page


def test_one_that_cannot_run_is_named_and_the_others_run(browser):
    broken, whole = scheduled("A"), scheduled("B")
    Schedule.objects.filter(pk=broken.pk).update(target="shop.Gone")
    page = act(browser, "run_selected", broken, whole)
    assert "A: nothing was enqueued: target: no model" in page
    assert "Enqueued a job of: B" in page
    assert Note.objects.count() == 1


def test_nobody_pauses_or_runs_without_the_permission(people):
    schedule = scheduled(timing="every 1 h")
    browser = people("view_schedule", "change_schedule", "delete_schedule")
    for action in ("pause_selected", "resume_selected", "run_selected"):
        act(browser, action, schedule)
    assert not again(schedule).is_paused
    assert not Note.objects.exists()


def test_what_is_declared_in_code_is_paused_there_and_nothing_else(browser):
    schedule = scheduled(timing="every 1 h")
    Schedule.objects.update(is_declared=True)
    page = browser.get(page_of(schedule))
    assert page.status_code == 200
    assert 'name="timing"' not in page.content.decode()
    assert browser.post(page_of(schedule), FORM).status_code == 403
    assert browser.post(f"{LIST}{schedule.pk}/delete/", {"post": "yes"}).status_code == 403
    browser.post(
        LIST, {"action": "delete_selected", "_selected_action": [schedule.pk], "post": "yes"}
    )
    assert again(schedule).timing == "every 1 h"
    assert "Paused" in act(browser, "pause_selected", schedule)


def test_a_schedule_is_deleted_with_its_ticks(people, clock):
    browser = people("view_schedule", "delete_schedule")
    schedule = scheduled(timing="every 1 h")
    clock.move(3600)
    run_due()
    assert browser.post(f"{LIST}{schedule.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not Schedule.objects.exists()
    assert not Tick.objects.exists()
    assert Note.objects.count() == 1
