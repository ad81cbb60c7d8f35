"""``dbqueue move``, ``prioritize``, ``reschedule``, ``retry`` with values, and ``--by``."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.utils import timezone

from django_dbqueue.mail.models import Email
from django_dbqueue.management.recording import recorded
from django_dbqueue.management.reporting import Report
from django_dbqueue.monitor.activity import activity
from django_dbqueue.operate import acting
from django_dbqueue.operate.acting import DELETE, Progress
from django_dbqueue.states import Status
from django_dbqueue.worker.served import Served
from tests.kit.admin_lists import fill
from tests.kit.bounds import limits
from tests.kit.command_line import as_json, dbqueue, fails, refused
from tests.kit.jobs import buried, claimed, fresh
from tests.kit.mail import finished
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def anna():
    user = User.objects.create_user("anna")
    yield user
    user.delete()


def queues():
    return sorted(Note.objects.values_list("queue", flat=True))


def test_jobs_are_moved_and_those_that_cannot_be_are_counted():
    Note.objects.enqueue(dedup_key="a")
    Note.objects.enqueue(dedup_key="a", queue="other")
    held = claimed(queue="q1")
    Note.objects.create()
    report = as_json("move", "queueapp.note", "--to", "other", "--yes")
    counts = {name: report[name] for name in ("version", "matched", "changed", "skipped")}
    assert counts == {"version": 1, "matched": 2, "changed": 1, "skipped": 1}
    assert queues() == ["default", "other", "other", "q1"]
    said = dbqueue("move", "queueapp.note:default", "--to", "other", "--yes")
    assert "a job with the same dedup key is there already" in said
    held.complete()


@pytest.mark.parametrize("verb", ["move", "prioritize"])
def test_no_job_is_met_twice_where_it_goes_on_in_the_list(verb, monkeypatch):
    """It goes behind others, to where the walk is still to come."""
    monkeypatch.setattr(acting, "CHUNK_ROWS", 3)
    fill(6, [Status.READY])
    Note.objects.create(queue="q9")
    value = "q5" if verb == "move" else 500
    report = as_json(verb, "queueapp.note", "--to", value, "--yes")
    assert (report["matched"], report["changed"], report["skipped"]) == (7, 7, 0)
    again = as_json(verb, "queueapp.note", "--to", value, "--yes")
    assert (again["matched"], again["changed"]) == (0, 0)


def test_no_job_is_rescheduled_twice_in_one_go(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    for delay in (None, 10, 20, 7_200, None):
        Note.objects.enqueue(delay=delay)
    report = as_json("reschedule", "queueapp.note", "--in", "1h", "--yes")
    assert (report["matched"], report["changed"]) == (5, 5)
    times = set(Note.objects.values_list("retry_at", flat=True))
    assert len(times) == 1
    away = times.pop() - timezone.now()
    assert timedelta(minutes=50) < away < timedelta(minutes=70)


def test_jobs_run_at_the_moment_that_is_named():
    job = Note.objects.create()
    dbqueue("reschedule", "queueapp.note", "--at", "2031-05-01T03:00:00+00:00", "--yes")
    assert fresh(job).retry_at == datetime(2031, 5, 1, 3, tzinfo=UTC)


def test_failed_jobs_are_retried_with_another_time_to_run_and_later():
    job, mail = buried(), finished(failed=True)
    dbqueue("retry", "queueapp.note", "--time-to-run", "15m", "--in", "1h")
    assert (fresh(job).status, fresh(job).time_to_run) == (Status.DELAYED, 900)
    dbqueue("retry", "dbqueue_mail.email", "--time-to-run", "90")
    assert (fresh(mail).status, fresh(mail).time_to_run) == (Status.READY, 90)


def test_a_full_queue_is_not_tried_for_each_chunk(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    Note.objects.enqueue_many([{"text": ""}] * 9)
    with limits("queueapp.note:other", max_length=3):
        report = as_json("move", "queueapp.note", "--to", "other", "--yes")
        said = dbqueue("move", "queueapp.note", "--to", "other", "--yes")
    assert (report["changed"], report["more"]) == (3, True)
    assert report["matched"] < 9
    assert said.endswith("2 skipped: the queue is full\nMore match: the queue is full.\n")
    assert queues().count("other") == 3


def test_a_full_lane_keeps_nobody_from_the_others(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    Note.objects.enqueue_many([{"text": text} for text in "aaaaabb"])
    with limits(rate="5/s", rate_key="{text}", max_length=2):
        report = as_json("move", "queueapp.note", "--to", "other", "--yes")
    assert (report["changed"], report["more"]) == (4, False)
    assert queues() == ["default"] * 3 + ["other@a"] * 2 + ["other@b"] * 2


@pytest.mark.parametrize(
    "words",
    [
        ["move", "queueapp.note", "--to", "a*"],
        ["move", "queueapp.note", "--to", " x"],
        ["prioritize", "queueapp.note", "--to", "4294967296"],
        ["retry", "queueapp.note", "--time-to-run", "0"],
    ],
)
def test_values_beyond_their_limits_are_refused(words):
    job = buried()
    refused(*words, *([] if words[0] == "retry" else ["--yes"]))
    assert (fresh(job).queue, fresh(job).state) == ("default", "buried")


@pytest.mark.parametrize(
    "words",
    [
        ["move", "queueapp.note"],
        ["prioritize", "queueapp.note", "--to", "-1"],
        ["prioritize", "queueapp.note", "--to", "x"],
        ["reschedule", "queueapp.note"],
        ["reschedule", "queueapp.note", "--at", "soon"],
        ["reschedule", "queueapp.note", "--at", "0001-01-01T00:00", "--in", "1h"],
        ["retry", "queueapp.note", "--time-to-run", "1.5"],
    ],
)
def test_words_that_are_no_values_are_refused(words):
    fails(1, *words, "--dry-run")


def test_a_time_that_nobody_there_can_be_told_is_none():
    with timezone.override("Asia/Tokyo"):
        fails(1, "reschedule", "queueapp.note", "--at", "9999-12-31T23:00Z", "--dry-run")


def test_what_is_done_by_somebody_is_recorded_once_for_each_table(anna):
    jobs = [buried(), buried()]
    finished(failed=True)
    dbqueue("retry", "--all", "--by", "anna")
    said = {one.model: one for one in activity().found}
    assert set(said) == {Note, Email}
    action = said[Note]
    assert (action.person, action.about) == ("anna", "2 notes")
    assert action.said.startswith("Retry: 2 changed; dbqueue retry; rows: 2 (")
    assert all(str(job.pk) in action.said for job in jobs)
    dbqueue("move", "queueapp.note", "--to", "other", "--yes", "--by", "anna", "--limit", "1")
    [newest] = activity(1).found
    assert newest.said == "Move to other: 1 changed; dbqueue move; rows: 1"
    assert newest.filters == "--limit 1"
    words = ("--include-claimed", "--until", "2100-01-01T00:00Z", "--newer-than", "1d")
    dbqueue("clear", "queueapp.note", *words, "--yes", "--by", "anna")
    [newest] = activity(1).found
    until = "--until 2100-01-01 00:00:00+00:00"
    assert newest.filters == f"--newer-than 86400 {until} --include-claimed"


def test_what_is_deleted_of_an_archive_is_recorded_with_its_database(anna):
    report = Report("prune", {"dry_run": False, "limit": None, "done": 60.0})
    progress = Progress(DELETE, taken=2)
    served = Served(Note, "north")
    report.done.append(("queueapp.note, archived", served, progress))
    with recorded(report, anna.pk):
        pass
    [newest] = activity(1).found
    assert (newest.about, newest.database, newest.filters) == ("2 notes", "north", "--done 60")


def test_pauses_and_old_jobs_that_are_deleted_are_recorded_too(anna, settings):
    settings.DBQUEUE = {"OPERATOR": "anna"}
    buried()
    dbqueue("pause", "queueapp.note:default", "--for", "10m", "--reason", "paper")
    dbqueue("resume", "queueapp.note:default")
    dbqueue("prune", "queueapp.note", "--failed", "0", "--yes")
    assert activity(1).found[0].filters == "--failed 0"
    pruned, resumed, paused = (one.said for one in activity().found)
    assert pruned.startswith("Delete: 1 changed; dbqueue prune")
    assert resumed.startswith("Resumed: queueapp.note, queue default")
    assert paused.startswith("Paused until")
    assert "paper" in paused


def test_nothing_is_recorded_where_nobody_is_named_and_nothing_done_by_a_stranger():
    job = buried()
    assert "no user 'nobody'" in refused("retry", "queueapp.note", "--by", "nobody")
    assert fresh(job).state == "buried"
    dbqueue("retry", "queueapp.note")
    assert not LogEntry.objects.exists()
    assert fresh(job).state == "ready"
