"""Actions that ask for a value: another queue, priority, time, or time to run."""

import copy
import html
import re
import shlex
from datetime import datetime
from urllib.parse import quote

import pytest
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.admin import JobAdmin, matching
from django_dbqueue.mail.models import Email
from django_dbqueue.management.acts import ACTS
from django_dbqueue.management.commands.dbqueue import Command
from django_dbqueue.operate import acting
from django_dbqueue.states import MOVES, Status
from tests.kit.admin_lists import NOTES, act, act_on_all, confirm_all, fill, sent_by, text_of
from tests.kit.jobs import buried, claimed, fresh
from tests.queueapp.models import Note, Shared

pytestmark = pytest.mark.usefixtures("db_rows")

VERBS_OF = {one.word: one for one in ACTS}
CANARY = '"><script>alert(1)</script>'


def page_of(job):
    return f"{NOTES}{job.pk}/change/"


def test_ticked_jobs_are_moved_after_the_queue_was_asked_for(browser):
    job, held = Note.objects.create(queue="q7"), claimed()
    page = act(browser, "move_selected", job, held)
    assert "To queue" in page
    assert '<option value="q7">' in page
    data = sent_by(page)
    assert fresh(job).queue == "q7"
    after = text_of(browser.post(NOTES, data | {"dbqueue-queue": "other"}, follow=True))
    assert "Move to other: 1 changed, 1 skipped: their state had moved on." in after
    assert (fresh(job).queue, fresh(held).queue) == ("other", "default")


def test_the_page_of_a_job_has_the_buttons_and_gets_them_back(browser):
    job = Note.objects.create()
    page = text_of(browser.get(page_of(job)))
    for button in ("Reschedule...", "Prioritize...", "Move..."):
        assert f">{button}</button>" in page
    data = {"action": "prioritize_selected", "_selected_action": [job.pk], "dbqueue_page": job.pk}
    question = sent_by(text_of(browser.post(NOTES, data)))
    response = browser.post(NOTES, question | {"dbqueue-priority": "5"})
    assert response["Location"] == page_of(job)
    assert fresh(job).priority == 5
    assert "Move..." not in text_of(browser.get(page_of(claimed())))


@pytest.mark.parametrize(
    ("action", "field", "value", "said"),
    [
        ("move", "queue", "", "To queue: name it."),
        ("move", "queue", " x", "queue"),
        ("move", "queue", "x" * 201, "200"),
        ("prioritize", "priority", "-1", "Priority: a whole number"),
        ("prioritize", "priority", "9" * 30, "Priority: a whole number"),
        ("reschedule", "due", "soon", "Run at: a date and a time."),
        ("kick_with", "time_to_run", "0", "Time to run: whole seconds"),
    ],
)
def test_what_is_no_value_is_told_and_asked_for_again(browser, action, field, value, said):
    job = buried() if action == "kick_with" else Note.objects.create()
    question = sent_by(act(browser, f"{action}_selected", job))
    page = text_of(browser.post(NOTES, question | {f"dbqueue-{field}": value}))
    assert "Nothing was changed" in page
    assert said in page
    assert sent_by(page)["_selected_action"] == [str(job.pk)]
    assert (fresh(job).queue, fresh(job).priority) == ("default", 1024)
    assert fresh(job).status == job.status


@pytest.mark.parametrize("action", ["reschedule_selected", "kick_with_selected"])
@pytest.mark.parametrize(
    ("zone", "due"),
    [("Asia/Tokyo", "9999-12-31T23:00:00Z"), ("America/New_York", "0001-01-01T01:00:00Z")],
)
def test_no_job_runs_at_a_time_that_nobody_there_can_be_told(browser, action, zone, due):
    job = buried() if action == "kick_with_selected" else Note.objects.create()
    question = sent_by(act(browser, action, job))
    with timezone.override(zone):
        page = text_of(browser.post(NOTES, question | {"dbqueue-due": due}))
    assert "Run at: a date and a time." in page
    assert fresh(job).status == job.status


def test_strangers_words_stay_words_where_a_value_is_asked_for_again(browser):
    Note.objects.create(queue=CANARY)
    job = Note.objects.create()
    question = sent_by(act(browser, "move_selected", job))
    page = text_of(browser.post(NOTES, question | {"dbqueue-queue": CANARY * 20}))
    assert CANARY not in page


def test_all_that_match_are_rescheduled_in_the_projects_time_zone(browser):
    fill(4, [Status.READY, Status.BURIED])
    page = act_on_all(browser, "reschedule_selected", "?queue=q1")
    assert timezone.get_current_timezone_name() in page
    question = sent_by(page)
    data = question | {"dbqueue-due": "2031-05-01T03:00"}
    after = text_of(browser.post(f"{NOTES}?queue=q1", data, follow=True))
    assert "1 changed" in after
    [moved] = QuerySet(Note).filter(status=Status.DELAYED)
    assert timezone.localtime(moved.retry_at) == timezone.make_aware(datetime(2031, 5, 1, 3))


def test_failed_jobs_are_retried_with_another_time_to_run(browser):
    job = buried()
    question = sent_by(act(browser, "kick_with_selected", job))
    page = text_of(browser.post(NOTES, question | {"dbqueue-time_to_run": "900"}, follow=True))
    assert "Retry with 900 s to run: 1 changed." in page
    assert (fresh(job).status, fresh(job).time_to_run) == (Status.READY, 900)


def level_of(page):
    return re.search(r'<li class="(\w+)">[^<]*changed', page)[1]


def test_what_changed_nothing_is_no_success(browser):
    ready = Note.objects.create()
    assert level_of(act(browser, "kick_selected", ready)) == "warning"
    assert level_of(confirm_all(browser, "bury_selected")) == "success"
    assert level_of(confirm_all(browser, "bury_selected")) == "warning"


def test_who_has_more_than_one_press_does_is_told_the_command(browser, monkeypatch):
    monkeypatch.setattr(matching, "ROWS_MAX", 2)
    monkeypatch.setattr(acting, "CHUNK_ROWS", 1)
    fill(9, [Status.BURIED], was_now=True)
    page = confirm_all(browser, "kick_selected", "?queue=q1&state=4")
    assert "manage.py dbqueue retry queueapp.note --database default --queue q1" in page
    page = confirm_all(browser, "move_selected", "?state=4", **{"dbqueue-queue": "a b"})
    assert (
        "dbqueue move queueapp.note --database default --state buried --to &#x27;a b&#x27;" in page
    )
    # Of a filter that the command does not know it would do more.
    page = confirm_all(browser, "kick_selected", f"?attempts__gte={quote('0')}&state=4")
    assert "More match" in page
    assert "manage.py" not in page


TOLD = {
    "kick": {},
    "kick_with": {"time_to_run": "900", "due": "2031-01-02T03:04"},
    "bury": {},
    "release": {},
    "cancel": {},
    "move": {"queue": "--other"},
    "prioritize": {"priority": "5"},
    "reschedule": {"due": "2031-01-02T03:04"},
}


@pytest.mark.parametrize("is_filtered", [True, False])
@pytest.mark.parametrize("action", TOLD)
def test_the_command_that_is_told_is_one_that_the_command_line_takes(
    browser, monkeypatch, action, is_filtered
):
    monkeypatch.setattr(matching, "ROWS_MAX", 1)
    verb = action.removesuffix("_with")
    values = {f"dbqueue-{name}": value for name, value in TOLD[action].items()}
    parser = Command().create_parser("manage.py", "dbqueue")
    for state in MOVES[verb][0]:
        fill(6, [state], was_now=True)
        query = f"?queue=q1&state={state.value}" if is_filtered else "?queue=q1"
        page = confirm_all(browser, f"{action}_selected", query, **values)
        command = re.search(r"done by (manage\.py dbqueue [^<]*)</li>", page)[1]
        options = vars(parser.parse_args(shlex.split(html.unescape(command))[2:]))
        assert options["queue"] == ["q1"]
        told = options.get("state") or [one.label for one in VERBS_OF[options["verb"]].states]
        assert (told == [state.label]) if is_filtered else (state.label in told)
        QuerySet[Note](Note).all().delete()


@pytest.mark.parametrize(
    ("model", "query", "is_told"),
    [
        (Email, "?queue=q1", False),  # the command takes its lanes along
        (Email, "?queue=q1@key", True),
        (Email, "", True),
        (Shared, "?queue=q1", True),
        (Shared, "?state=3", False),  # the command takes along what waits for its key
        (Shared, "?state=4", True),
    ],
)
def test_no_command_is_told_that_would_do_it_to_more(browser, monkeypatch, model, query, is_told):
    monkeypatch.setattr(matching, "ROWS_MAX", 1)
    monkeypatch.setattr(acting, "CHUNK_ROWS", 1)
    for status in (Status.DELAYED, Status.BURIED):
        retry_at = timezone.now() if status == Status.DELAYED else None
        rows = [model(status=status, retry_at=retry_at, queue=q) for q in ("q1", "q1@key")] * 2
        QuerySet(model).bulk_create(map(copy.copy, rows))
    url = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    page = confirm_all(browser, "kick_selected", query, url)
    assert "More match" in page
    assert ("manage.py dbqueue" in page.partition("messagelist")[2]) == is_told


def test_no_command_is_told_where_a_list_is_narrowed_to_some_of_the_jobs(browser, monkeypatch):
    monkeypatch.setattr(matching, "ROWS_MAX", 1)
    fill(6, [Status.READY])
    mine = Note.objects.exclude(queue="q2")
    monkeypatch.setattr(JobAdmin, "get_queryset", lambda self, request: mine.all())
    page = confirm_all(browser, "cancel_selected")
    assert "More match" in page
    assert "manage.py" not in page


@pytest.mark.parametrize("action", ["move", "prioritize", "reschedule", "kick_with", "cancel"])
def test_of_a_job_that_has_gone_it_says_that_nothing_was_changed(browser, action):
    job = Note.objects.create()
    gone = Note(pk=job.pk)
    QuerySet[Note](Note).filter(pk=job.pk).delete()
    page = act(browser, f"{action}_selected", gone)
    assert '<li class="warning">' in page
    assert ": 0 changed." in page
