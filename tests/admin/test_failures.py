"""The page of failures, its button, and the lists that it leads to."""

import re
from html import unescape

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models import F, QuerySet

from django_dbqueue.admin import JobAdmin, matching
from django_dbqueue.metrics import counts
from django_dbqueue.operate import keyset as pagination
from django_dbqueue.operate import walking
from django_dbqueue.states import Status
from tests.kit.admin_lists import START, confirm_all, fill, step, walk
from tests.kit.failures import NO_PAPER, count, failed, kind, look, retrying
from tests.kit.jobs import fresh, overwrite
from tests.kit.overview import CANARY, OVERVIEW, text_of
from tests.queueapp.models import ArchivedKept, Note

pytestmark = pytest.mark.usefixtures("db_rows")
FAILURES, RETRY = f"{OVERVIEW}failures/", f"{OVERVIEW}retry/"
NOTES = "/admin/queueapp/note/"


def hidden(text, name):
    """By name, what the form with this failure sends."""
    forms = [one for one in re.findall(r"<form.*?</form>", text, re.DOTALL) if name in one]
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', forms[0])
    return {key: unescape(value) for key, value in found if key != "csrfmiddlewaretoken"}


def keys_in(text):
    return [int(key) for key in re.findall(r'name="_selected_action" value="(\d+)"', text)]


def test_a_kind_is_shown_with_its_counts_and_leads_to_its_jobs(browser):
    count(1200)
    jobs = [failed(), failed()]
    waits = retrying()
    failed(NO_PAPER)
    text = text_of(browser.get(FAILURES))
    for shown in ("OSError", "no file #", ">1,200<", "Retry these 2...", "no paper"):
        assert shown in text
    links = [unescape(one) for one in re.findall(r'href="([^"]*failure=[^"]*)"', text)]
    lists = {link: keys_in(text_of(browser.get(link))) for link in links}
    query = f"{NOTES}?failure={kind().fingerprint}&"
    assert lists[f"{query}state=4"] == [jobs[1].pk, jobs[0].pk]
    assert lists[f"{query}retrying=1"] == [waits.pk]


@pytest.mark.each_database
def test_those_that_retry_are_listed_also_once_they_are_ready_and_while_they_run(browser):
    failed()
    overwrite(Note.objects.create(), failure=kind(NO_PAPER).fingerprint)
    jobs = [retrying() for _ in range(3)]
    for job, status in zip(jobs, (Status.READY, Status.CLAIMED, Status.DELAYED), strict=True):
        overwrite(job, status=status)
    [group] = [one for one in look().groups if one.failure == kind()]
    assert group.here.retrying == 3
    url = f"{NOTES}?failure={kind().fingerprint}&retrying=1"
    assert url in unescape(text_of(browser.get(FAILURES)))
    text = text_of(browser.get(url))
    assert keys_in(text) == [job.pk for job in reversed(jobs)]
    assert "<p>3 notes</p>" in text
    assert keys_in(text_of(browser.get(f"{url}&state=0"))) == [jobs[0].pk]
    assert keys_in(text_of(browser.get(f"{url}&state=4"))) == []
    assert keys_in(text_of(browser.get(f"{url}&queue=none"))) == []


def test_the_tabs_of_a_list_count_the_jobs_with_the_failure(browser):
    for _ in range(3):
        failed()
    retrying()
    failed(NO_PAPER)
    text = text_of(browser.get(f"{NOTES}?failure={kind().fingerprint}&state=4"))
    tabs = re.search(r'<nav class="dbqueue-tabs".*?</nav>', text, re.DOTALL)[0]
    counts = re.findall(r"(\w+)\s*<span[^>]*>([\d,+?]+)</span>", tabs)
    assert dict(counts) == {
        "ready": "0",
        "claimed": "0",
        "delayed": "1",
        "buried": "3",
        "done": "0",
        "all": "4",
    }


def test_kinds_that_are_left_out_and_jobs_that_were_not_counted_are_no_zeros(browser, monkeypatch):
    monkeypatch.setattr(counts, "KINDS_MAX", 1)
    monkeypatch.setattr(counts, "FAILED_MAX", 1)
    for error in (NO_PAPER, NO_PAPER, OSError("ape"), OSError("bee")):
        failed(error)
        count(1, error)
    text = text_of(browser.get(FAILURES))
    assert "See ? failed jobs" in text
    assert ">0<" not in "".join(re.findall(r'<td[^>]*data-label="Failed".*?</td>', text))
    assert "queueapp.note has jobs with other kinds of failures, too" in text


@pytest.mark.each_database
@pytest.mark.parametrize("window", [5, 1000])
@pytest.mark.parametrize("asked", [{}, {"queue": "q1"}, {"priority": "1"}])
def test_all_jobs_with_a_failure_are_walked_through_there_and_back(
    browser, monkeypatch, asked, window
):
    monkeypatch.setattr(JobAdmin, "list_per_page", 7)
    monkeypatch.setattr(pagination, "WINDOW_ROWS", window)
    monkeypatch.setattr(walking, "WALK_SECONDS", 0)
    for name in ("other", "same", "other"):
        fill(9, [Status.READY, Status.DELAYED, Status.BURIED], failure=name)
    QuerySet(Note).filter(status=Status.BURIED, failed_at=None).update(failed_at=START)
    order = F("failed_at").desc(nulls_last=True), "-id"
    rows = QuerySet(Note).filter(failure="same", **asked).order_by(*order)
    expected = list(rows.values_list("pk", flat=True))
    query = "".join(f"&{name}={value}" for name, value in asked.items())
    pages, _last = walk(browser, f"?failure=same{query}", "(?:Older|Look further)")
    assert [key for one in pages for key in one] == expected
    end = step(text_of(browser.get(f"{NOTES}?failure=same{query}")), "Oldest")
    pages, _first = walk(browser, end, "(?:Newer|Look further)")
    assert [key for one in reversed(pages) for key in one] == expected


@pytest.mark.parametrize(
    "asked",
    [
        "retry_at__gte=2100-01-01T00:00:00Z",
        "retry_at__isnull=0",
        "retry_at__lt=2000-01-01T00:00:00Z&queue=default",
        "status=3",
        "status__lt=4",
    ],
)
def test_another_filter_is_asked_of_the_jobs_with_a_failure(browser, asked):
    jobs = [failed() for _ in range(3)]
    for failure in (f"failure={kind().fingerprint}&", ""):
        query = f"?{failure}state=4&{asked}"
        assert keys_in(text_of(browser.get(NOTES + query))) == []
        assert "0 changed" in confirm_all(browser, "cancel_selected", query)
    assert {fresh(job).status for job in jobs} == {Status.BURIED}
    implied = f"?failure={kind().fingerprint}&state=4&status=4&retry_at__isnull=1"
    assert len(keys_in(text_of(browser.get(NOTES + implied)))) == 3


@pytest.mark.each_database
def test_an_archive_has_no_index_of_failures_and_is_looked_through_in_parts(browser, monkeypatch):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 5)
    monkeypatch.setattr(walking, "WALK_SECONDS", 0)
    names = ["same", *["other"] * 20]
    ArchivedKept.objects.bulk_create(
        [ArchivedKept(pk=n, failure=f) for n, f in enumerate(names, 1)]
    )
    page = text_of(browser.get("/admin/queueapp/archivedkept/?failure=same"))
    assert "Nothing among the 5 jobs that were looked at" in page


def test_without_any_the_page_says_so_and_denies_no_job_that_a_person_buried(browser):
    Note.objects.create()
    Note.objects.bury()
    text = text_of(browser.get(FAILURES))
    assert "Nothing failed within 24 hours" in text
    assert "no failed job waits" not in text
    assert "buried by hand" in text


def test_those_that_were_shown_are_put_back_after_a_question(browser):
    shown = [failed(), failed()]
    other = failed(NO_PAPER)
    sent = hidden(text_of(browser.get(FAILURES)), kind().fingerprint)
    later = failed()
    question = text_of(browser.post(RETRY, sent))
    assert "no file #" in question
    assert "Retry 2" in question
    assert {fresh(job).status for job in shown} == {Status.BURIED}
    answer = hidden(question, kind().fingerprint)
    after = text_of(browser.post(RETRY, answer, follow=True))
    assert "Retry: 2 changed." in after
    assert {fresh(job).status for job in shown} == {Status.READY}
    assert {fresh(job).status for job in (other, later)} == {Status.BURIED}
    [entry] = LogEntry.objects.all()
    assert kind().fingerprint in entry.change_message
    assert all(str(job.pk) in entry.change_message for job in shown)
    assert "None of these jobs is failed any more" in text_of(browser.post(RETRY, sent))


def test_no_more_than_were_counted_are_put_back(browser):
    for _ in range(3):
        failed()
    question = hidden(text_of(browser.get(FAILURES)), kind().fingerprint)
    browser.post(RETRY, question | {"count": "2", "confirmed": "yes"})
    assert Note.objects.buried().count() == 1


def test_a_count_of_any_length_is_one(browser):
    asked = {"table": "queueapp.note", "failure": failed().failure, "confirmed": "yes"}
    asked |= {"until": "2100-01-01T00:00:00+00:00", "count": "9" * 5000}
    assert browser.post(RETRY, asked).status_code == 302
    assert not Note.objects.buried().exists()


def test_at_most_ten_thousand_are_put_back_at_once(browser, monkeypatch):
    monkeypatch.setattr(matching, "ROWS_MAX", 2)
    for _ in range(3):
        failed()
    question = text_of(browser.post(RETRY, hidden(text_of(browser.get(FAILURES)), "failure")))
    assert "At most 2 at once" in question
    browser.post(RETRY, hidden(question, "failure"))
    assert Note.objects.buried().count() == 1


def test_who_may_not_inspect_sees_the_class_and_no_words(people):
    failed()
    count(1)
    text = text_of(people("view_queue", "view_note").get(FAILURES))
    assert "OSError" in text
    assert "no file" not in text
    assert "Retry these" not in text
    assert "no file #" in text_of(people("view_queue", "inspect_note").get(FAILURES))


def test_who_may_not_retry_changes_nothing(people):
    job = failed()
    sent = {"table": "queueapp.note@default", "failure": job.failure, "confirmed": "yes"}
    sent |= {"until": "2100-01-01T00:00:00+00:00", "count": "9"}
    for codenames in (("view_queue",), ("retry_note",), ("view_queue", "view_note")):
        assert people(*codenames).post(RETRY, sent).status_code == 403
    assert fresh(job).status == Status.BURIED
    assert people("view_queue", "retry_note").post(RETRY, sent).status_code == 302
    assert fresh(job).status == Status.READY


@pytest.mark.parametrize(
    "odd",
    [
        {"table": "nonsense"},
        {"table": "queueapp.note@nowhere"},
        {"until": "x"},
        {"until": "2030-01-01"},
        {"until": "0001-01-01T00:00:00+01:00"},
        {"until": "9999-12-31T23:59:59-01:00"},
    ],
    ids=repr,
)
def test_what_names_no_failures_is_not_found(browser, odd):
    sent = {"table": "queueapp.note", "failure": "x", "until": "2030-01-01T00:00:00+00:00"}
    assert browser.post(RETRY, sent).status_code == 200
    assert browser.post(RETRY, sent | odd).status_code == 404
    assert browser.get(RETRY).status_code == 405


def test_strangers_words_are_escaped(browser):
    failed(OSError(CANARY), queue=CANARY)
    count(1, OSError(CANARY), CANARY)
    text = text_of(browser.get(FAILURES))
    assert CANARY not in text
    assert "&lt;script&gt;alert(#)" in text
