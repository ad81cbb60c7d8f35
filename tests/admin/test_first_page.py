"""The first page: what it shows of the verdict, of what runs and is due, and of what people did."""

import re
from html import unescape

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.db import OperationalError

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Queue
from django_dbqueue.monitor import failures
from django_dbqueue.tasks.models import Task
from tests.kit.failures import NO_PAPER, count, failed
from tests.kit.jobs import claimed, overwrite
from tests.kit.overview import CANARY, NOTE, OVERVIEW, a_worker, minute, text_of
from tests.queueapp.models import Note
from tests.tasks import calls

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture(autouse=True)
def no_deeds_from_before(db_rows):
    LogEntry.objects.all().delete()


def page(client):
    return text_of(client.get(OVERVIEW))


def part(text, name):
    """A region of the page."""
    return re.search(rf'data-dbqueue-region="{name}".*?</section>', text, re.DOTALL)[0]


def test_the_verdict_leads_to_the_jobs(browser):
    Note.objects.create(queue="lonely")
    text = page(browser)
    verdict = text[text.index('role="alert"') :]
    verdict = verdict[: verdict.index("</section>")]
    assert f"Act now: {NOTE}, queue lonely: no living worker serves it." in verdict
    assert 'href="/admin/queueapp/note/?state=0&amp;queue=lonely"' in verdict


def test_without_a_problem_the_page_is_calm(browser):
    text = page(browser)
    assert 'role="alert"' not in text
    said = r'dbqueue-verdict-ok" role="status".*All is well: nothing waits'
    assert re.search(said, text, re.DOTALL)
    assert "paused on purpose" not in text.lower()


def test_a_worker_in_trouble_is_linked_for_those_who_may_see_workers(browser, people):
    worker = a_worker(trouble="disk full")
    assert f'href="/admin/dbqueue/worker/{worker.uuid}/change/"' in page(browser)
    text = page(people("view_queue"))
    assert "disk full" in text
    assert "/admin/dbqueue/worker/" not in text


def test_queue_tables_in_which_nothing_is_are_folded(browser):
    Note.objects.create()
    busy, _, idle = page(browser).partition('id="dbqueue-idle"')
    assert f"<code>{NOTE}</code>" in busy
    assert "<code>queueapp.big</code>" not in busy
    assert "<code>queueapp.big</code>" in idle


def test_the_strip_names_the_queues_and_the_figures(browser):
    minute(3, completed=90, failed=7)
    a_worker(name="new")
    strip = part(page(browser), "strip")
    assert f"{NOTE}, default" in strip
    assert "Done in the last hour: 90, at most 90 in a minute" in strip
    assert "Failed attempts in the last hour: 7, at most 7 in a minute" in strip
    assert "worker new on web1" in strip
    assert "style=" not in strip


def test_figures_say_that_the_last_seconds_of_a_killed_worker_are_not_in_them(browser):
    minute(3, completed=90)
    count(1)
    text = page(browser)
    for name in ("strip", "queues", "failures"):
        assert "killed" in part(text, name), name
    for url in ("failures/", f"charts/?table={NOTE}"):
        assert "killed" in text_of(browser.get(f"{OVERVIEW}{url}"))


def test_what_runs_is_shown_with_its_time_and_only_to_those_who_may_see_workers(browser, people):
    job = claimed(queue="letters")
    one = {"job": f"{NOTE} {job.pk}", "seconds": 30.0, "limit": 60.0}
    a_worker(running={"7": [one]})
    runs = part(page(browser), "running")
    assert f'href="/admin/queueapp/note/{job.pk}/change/"' in runs
    assert "letters" in runs
    assert "30 s of 1 min" in runs
    assert 'width="50.0"' in runs
    assert 'data-dbqueue-region="running"' not in page(people("view_queue"))


def test_workers_are_named_only_to_those_who_may_see_them(people):
    minute(3, completed=1)
    a_worker(name="boiler", trouble="disk full")
    a_worker(host="web2", drain_requested_at=DbNow())
    a_worker(host="web3", started_at=DbNow(plus=9), code_version=2, stopped_at=DbNow(plus=9))
    Note.objects.create()
    for may_see in (True, False):
        text = page(people("view_queue", *["view_worker"] * may_see))
        assert "disk full" in text
        assert "boiler on" in text if may_see else "Worker •••: disk full" in text
        assert [name in text for name in ("boiler", "web1", "web2", "web3")] == [may_see] * 4


def test_those_who_claim_nothing_are_named_only_to_those_who_may_see_workers(people):
    a_worker(drain_requested_at=DbNow())
    Note.objects.create()
    for may_see in (True, False):
        text = page(people("view_queue", *["view_worker"] * may_see))
        assert ("web1" in text) == may_see
        assert ("no worker claims from it now: ••• (draining)." in text) != may_see


def test_how_far_a_task_is_is_for_those_who_may_see_its_table(people):
    calls.noop.enqueue(1)
    Task.objects.claim()
    Task.objects.update(progress={"done": 3, "total": 10, "note": "of Ann"})
    assert "of Ann" not in page(people("view_queue", "view_worker"))
    assert "3 of 10 (30 %): of Ann" in page(people("view_queue", "view_worker", "view_task"))


def test_a_stretch_of_time_leads_to_the_jobs_that_are_due_in_it(browser):
    jobs = [Note.objects.enqueue(delay=delay)[0] for delay in (1500, 1500, 40_000)]
    due = part(page(browser), "due")
    assert "2 in the next hour" in due
    assert "3 in the next day" in due
    urls = [unescape(url) for url in re.findall(r'<a href="([^"]+retry_at[^"]+)"', due)]
    found = []
    for url in urls:
        text = text_of(browser.get(url))
        assert "retry_at__lt=" in url
        found.append([j.pk for j in jobs if f"/admin/queueapp/note/{j.pk}/change/" in text])
    assert found == [[jobs[0].pk, jobs[1].pk], [jobs[0].pk, jobs[1].pk], [jobs[2].pk]]


def test_what_is_due_already_is_in_the_first_stretch(browser):
    job, _ = Note.objects.enqueue(delay=60)
    overwrite(job, retry_at=DbNow(plus=-90))
    due = part(page(browser), "due")
    [url, _] = re.findall(r'<a href="([^"]+retry_at[^"]+)"', due)
    assert "retry_at__gte" not in url
    assert f"/admin/queueapp/note/{job.pk}/change/" in text_of(browser.get(unescape(url)))


def test_the_first_kinds_of_failures_are_shown_and_lead_to_all(browser):
    for n in range(7):
        failed(ValueError(f"{'x' * (n + 1)} is no colour"))
        count(1, ValueError(f"{'x' * (n + 1)} is no colour"))
    failed(NO_PAPER)
    text = page(browser)
    assert text.count("Retry these") == 5
    assert "3 more kinds of failures" in text
    assert 'href="/admin/dbqueue/queue/failures/"' in text


# --- what people did ----------------------------------------------------------------------------


@pytest.fixture
def anna():
    user = User.objects.create_user("anna", is_staff=True)
    yield user
    user.delete()


def act(user, rows, message, flag=CHANGE):
    LogEntry.objects.log_actions(user.pk, rows, flag, message)


def test_what_people_did_is_told_the_latest_first_and_leads_to_the_rest(browser, anna):
    job = Note.objects.create()
    act(anna, [job], "Retried; rows: 1; filters: q=secret")
    act(anna, [job], "Buried; rows: 1; filters: none")
    told = part(page(browser), "activity")
    assert told.index("Buried") < told.index("Retried")
    assert told.count("<strong>anna</strong>") == 2
    assert f'href="/admin/queueapp/note/{job.pk}/change/"' in told
    assert 'href="/admin/dbqueue/queue/activity/"' in told
    assert "secret" not in told, "a search may tell more than all may see"


def test_only_what_was_done_to_rows_that_may_be_seen_is_told(people, anna):
    act(anna, [Note.objects.create()], "Buried")
    act(anna, [anna], "Changed the person")
    Queue.objects.pause(Note._meta.db_table, "a", 60, "tea")
    act(anna, [Queue.objects.get()], "Paused it")
    told = part(page(people("view_queue")), "activity")
    assert "Paused it" in told
    assert "Buried" not in told
    assert "Changed the person" not in told
    assert "Buried" in part(page(people("view_queue", "view_note")), "activity")


def test_at_most_twenty_are_told(browser, anna):
    job = Note.objects.create()
    for n in range(25):
        act(anna, [job], f"Did {n}")
    told = part(page(browser), "activity")
    assert told.count("<li>") == 20
    assert "Did 24<" in told
    assert "Did 4<" not in told


def test_nothing_that_people_wrote_is_taken_for_markup(browser, anna):
    act(anna, [Note.objects.create()], CANARY)
    Queue.objects.pause(Note._meta.db_table, CANARY, None, CANARY)
    a_worker(name=CANARY, running={"1": [{"job": f"{NOTE} {CANARY}", "seconds": 1}]})
    minute(1, CANARY, completed=1)
    text = page(browser)
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 5


def test_what_could_not_be_asked_is_not_told_as_none(browser, monkeypatch):
    def look(served):
        raise OperationalError("the disk is full")

    assert "Nothing failed within 24 hours." in page(browser)
    monkeypatch.setattr(failures, "look", look)
    text = page(browser)
    assert "Act now: database &#x27;default&#x27; cannot be asked: the disk is full" in text
    for told in ("Nothing failed within", "No worker runs a job", "No delayed job has a time"):
        assert told not in text
    assert text.count("Not everything could be asked") == 3
