"""What people do to jobs in the admin: who may, to which, asked before, in chunks, recorded."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from django_dbqueue.admin import matching
from django_dbqueue.operate import acting, recording
from django_dbqueue.states import Status
from tests.kit.admin_lists import (
    NOTES,
    act,
    act_on_all,
    confirm_all,
    fill,
    keys_in,
    sent_by,
    text_of,
)
from tests.kit.jobs import buried, claimed, fresh
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

# By action: the codename of its permission, and what becomes of the three jobs.
ACTIVITY = {
    "kick_selected": ("retry", ["ready", "claimed", "ready"]),
    "bury_selected": ("bury", ["buried", "buried", "buried"]),
    "release_selected": ("release", ["ready", "ready", "buried"]),
    "cancel_selected": ("delete", []),
    "export_selected": ("export", ["ready", "claimed", "buried"]),
    "move_selected": ("amend", ["ready", "claimed", "buried"]),
}
# What the same permission allows besides.
ALONG = {
    "kick_selected": {"kick_with_selected"},
    "move_selected": {"prioritize_selected", "reschedule_selected"},
}
UNCHANGED = ["ready", "claimed", "buried"]
CANARY = "<script>alert('canary')</script>"


@pytest.fixture
def jobs():
    held, parked = claimed(), buried()
    return [Note.objects.create(), held, parked]


def states(jobs):
    rows = [QuerySet[Note](Note).filter(pk=job.pk).first() for job in jobs]
    return [row.state for row in rows if row]


def logged():
    return list(LogEntry.objects.order_by("pk").values_list("object_id", "change_message"))


@pytest.mark.parametrize("action", ACTIVITY)
def test_each_deed_has_a_permission_of_its_own(people, jobs, action):
    codename, expected = ACTIVITY[action]
    browser = people("view_note", f"{codename}_note")
    offered = re.findall(r'<option value="(\w+_selected)"', text_of(browser.get(NOTES)))
    assert set(offered) == {action} | ALONG.get(action, set())
    data = {"_selected_action": [job.pk for job in jobs], "confirmed": "yes", "post": "yes"}
    data["dbqueue-queue"] = "other"
    for other in {*ACTIVITY, "delete_selected"} - {action}:
        browser.post(NOTES, {"action": other, **data})
        assert states(jobs) == UNCHANGED, other
    assert logged() == []
    browser.post(NOTES, {"action": action, **data})
    assert states(jobs) == expected
    assert logged()


@pytest.mark.parametrize("codenames", [["view_note"], ["view_note", "change_note", "add_note"]])
def test_who_may_only_look_gets_no_actions_and_no_boxes(people, jobs, codenames):
    browser = people(*codenames)
    page = text_of(browser.get(NOTES))
    assert set(keys_in(page)) == {job.pk for job in jobs}
    assert "action-select" not in page
    assert 'name="action"' not in page
    for action in {*ACTIVITY, "delete_selected"}:
        data = {"action": action, "everything": "on", "confirmed": "yes", "post": "yes"}
        browser.post(NOTES, data)
    assert browser.get(f"{NOTES}{jobs[0].pk}/delete/").status_code == 403
    assert (states(jobs), logged()) == (UNCHANGED, [])


def test_strangers_and_staff_without_permissions_get_nothing(client, people, jobs):
    for log_in, status in ((lambda: client, 302), (people, 403)):
        browser = log_in()
        for action in ACTIVITY:
            data = {"action": action, "everything": "on", "confirmed": "yes"}
            assert browser.get(NOTES).status_code == status
            assert browser.post(NOTES, data).status_code == status
    assert (states(jobs), logged()) == (UNCHANGED, [])


def test_errors_are_told_to_who_may_inspect(people, jobs):
    page = text_of(people("view_note").get(NOTES))
    assert "for the test" not in page
    assert '<td class="field-error_class">buried on purpose</td>' in page
    assert "for the test" in text_of(people("view_note", "inspect_note").get(NOTES))


@pytest.mark.parametrize(
    "lookup", ["text__startswith", "errors__contains", "dedup_key__startswith", "log", "text"]
)
def test_who_may_not_inspect_cannot_ask_the_list(people, lookup):
    Note.objects.create(text="secret", dedup_key="secret")
    assert people("view_note").get(NOTES, {lookup: "secret"}).status_code == 400
    asked = "dedup_key__exact" if lookup == "errors__contains" else lookup
    assert people("view_note", "inspect_note").get(NOTES, {asked: "secret"}).status_code == 200
    assert people("view_note").get(NOTES, {"attempts__gte": "0"}).status_code == 200


def test_all_that_match_are_asked_for_and_then_changed(browser):
    fill(3, text="ours")
    page = act_on_all(browser, "kick_selected", "?queue=q1")
    assert "all that match: queue = q1" in page
    assert re.findall(r"<dt>(\w+)</dt><dd>(\d+)</dd>", page) == [("delayed", "1"), ("buried", "1")]
    assert "<li>note " in page
    assert logged() == []
    page = confirm_all(browser, "kick_selected", "?queue=q1")
    assert "2 changed" in page
    kicked = QuerySet(Note).filter(queue="q1", status=Status.READY)
    assert kicked.count() == 3
    assert QuerySet(Note).filter(status=Status.BURIED).count() == 2
    # One entry, which names the jobs.
    [(key, said)] = logged()
    assert key is None
    named = re.fullmatch(r"Retry: 2 changed; rows: 2 \((\d+), (\d+)\); filters: queue=q1", said)
    assert {int(one) for one in named.groups()} < {job.pk for job in kicked}


def test_all_that_match_are_done_in_chunks_up_to_a_limit(browser, monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 4)
    monkeypatch.setattr(matching, "ROWS_MAX", 8)
    monkeypatch.setattr(recording, "KEYS_NAMED_MAX", 5)
    fill(11, [Status.READY, Status.DONE])
    with CaptureQueriesContext(connection) as queries:
        page = confirm_all(browser, "bury_selected")
    writes = [q["sql"] for q in queries if q["sql"].startswith("UPDATE") and "queueapp" in q["sql"]]
    assert len(writes) == 2
    assert "8 changed" in page
    assert "More match" in page
    [(key, said)] = logged()
    assert key is None
    named = r"Bury: 8 changed; rows: 8 \((\d+, ){5}\.\.\); filters: none"
    assert re.fullmatch(named, said)
    assert "3 changed" in confirm_all(browser, "bury_selected")
    assert QuerySet(Note).filter(status=Status.READY).count() == 0
    assert QuerySet(Note).filter(status=Status.DONE).count() == 11


def test_only_the_jobs_that_the_log_names_are_read_whole(browser, monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    monkeypatch.setattr(recording, "KEYS_NAMED_MAX", 3)
    fill(11, [Status.READY])
    question = sent_by(act_on_all(browser, "bury_selected"))
    with CaptureQueriesContext(connection) as queries:
        browser.post(NOTES, question)
    column = connection.ops.quote_name("errors")
    acted = [q["sql"] for q in queries if q["sql"].startswith("UPDATE") and "queueapp" in q["sql"]]
    whole = [q["sql"] for q in queries if f".{column}" in q["sql"] and " IN (" in q["sql"]]
    walked = [q["sql"] for q in queries if "queueapp" in q["sql"] and " LIMIT 3" in q["sql"]]
    assert (len(acted), len(whole)) == (6, 2)
    assert walked
    assert not [sql for sql in walked if column in sql]


def test_a_job_is_cancelled_only_when_that_was_confirmed(browser, jobs):
    page = act(browser, "cancel_selected", jobs[0], jobs[2])
    assert "taken out for good" in page
    assert len(states(jobs)) == 3
    page = act(browser, "cancel_selected", jobs[0], jobs[2], confirmed="yes")
    assert "2 changed" in page
    assert states(jobs) == ["claimed"]
    assert {entry.action_flag for entry in LogEntry.objects.all()} == {3}
    # A row that has gone meanwhile does not stand for all.
    page = act(browser, "cancel_selected", jobs[0])
    assert "all that match" not in page
    assert states(jobs) == ["claimed"]


def test_what_is_done_is_recorded_where_the_rest_fails(browser, monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    fill(4, [Status.BURIED])
    real, calls = type(Note.objects.all()).kick, []

    def kick(queryset):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("the disk is full")
        return real(queryset)

    monkeypatch.setattr(type(Note.objects.all()), "kick", kick)
    with pytest.raises(RuntimeError):
        confirm_all(browser, "kick_selected")
    [(_, said)] = logged()
    assert said.startswith("Retry: 2 changed; rows: 2 (")


def test_nonsense_among_the_chosen_rows_is_left_out(browser, jobs):
    data = {"action": "bury_selected", "_selected_action": ["x", "", jobs[0].pk, "1e5", "9" * 30]}
    text_of(browser.post(NOTES, data, follow=True))
    assert states(jobs) == ["buried", "claimed", "buried"]


def test_strangers_words_stay_words_where_it_is_asked(browser):
    job = Note.objects.create(queue=CANARY, text=CANARY)
    page = act_on_all(browser, "cancel_selected", f"?queue={CANARY}")
    assert CANARY not in page
    assert "&lt;script&gt;alert" in page
    assert CANARY not in text_of(browser.get(NOTES, {"queue": CANARY, "after": CANARY}))
    assert fresh(job)


def test_a_row_may_go_along_with_one_of_another_model(browser):
    from testproject.shop.images import paint
    from testproject.shop.models import Photo, Thumbnail

    photo = Photo.objects.create(title="cup", image=paint(1))
    thumbnail = Thumbnail.objects.create(photo=photo)
    page = text_of(browser.get(f"/admin/shop/photo/{photo.pk}/delete/"))
    assert f"thumbnail {thumbnail.pk}" in page
    assert "your account doesn" not in page
