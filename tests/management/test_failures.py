"""``dbqueue failures``, and ``--failure`` of the verbs."""

import re

import pytest
from django.core.management import CommandError

from django_dbqueue.management.failures import HEAD
from django_dbqueue.metrics.failures import start_of
from django_dbqueue.metrics.recorder import this_minute
from django_dbqueue.monitor import failures as monitor
from django_dbqueue.states import Status
from tests.kit.command_line import as_json, dbqueue, refused
from tests.kit.failures import NO_PAPER, count, failed, kind, retrying
from tests.kit.jobs import fresh
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
SHAPE = {
    "failure",
    "table",
    "database",
    "exception",
    "place",
    "message",
    "hour",
    "day",
    "half_hours",
    "first_seen",
    "last_seen",
    "queues",
    "failed",
    "retrying",
    "at_least",
}


def test_a_line_says_how_often_and_what():
    assert dbqueue("failures", "queueapp.note") == "no failures\n"
    count(1200)
    failed()
    head, line, until = dbqueue("failures", "queueapp.note").splitlines()
    assert " ".join(head.split()) == " ".join(map(str, HEAD))
    assert line.split()[:6] == [kind().fingerprint, "queueapp.note", "1,200", "1,200", "1", "0"]
    assert line.endswith("OSError: no file #")
    assert re.match(r"Counted until 20[\d-]{8}T[\d:.]+\+00:00: --until leaves out", until)


@pytest.mark.each_database
def test_those_that_were_counted_are_taken_and_none_that_failed_since():
    counted, name = {failed().pk for _ in range(3)}, kind().fingerprint
    until = re.search(r"until (\S+): ", dbqueue("failures", "queueapp.note"))[1]
    later = {failed().pk for _ in range(3)}
    listed = as_json("failed", "--failure", name, "--until", until)["failed"]
    assert {one["id"] for one in listed} == counted
    retried = ("retry", "queueapp.note", "--failure", name, "--until", until, "--limit", "3")
    assert as_json(*retried)["changed"] == 3
    assert set(Note.objects.buried().values_list("pk", flat=True)) == later
    with pytest.raises(CommandError, match="is no time such as"):
        dbqueue("retry", "--until", "soon")


def test_json_has_the_shape_that_is_documented():
    count(3, queue="other")
    failed(queue="other")
    found = as_json("failures", "queueapp.note")
    assert found.keys() == {"version", "failures", "more_kinds", "shown_at", "problems"}
    assert (found["version"], found["problems"], [*found["shown_at"]]) == (1, {}, ["default"])
    [one] = found["failures"]
    assert one.keys() == SHAPE
    assert (one["hour"], one["day"], one["failed"], sum(one["half_hours"])) == (3, 3, 1, 3)
    assert (one["message"], one["queues"], one["at_least"]) == ("no file #", ["other"], False)


def test_a_queue_and_a_time_leave_out_the_others():
    count(1, queue="other")
    count(1, NO_PAPER, ago=180)
    assert len(as_json("failures")["failures"]) == 2
    [one] = as_json("failures", "--since", "1h")["failures"]
    assert one["message"] == "no file #"
    assert as_json("failures", "--queue", "other", "--since", "24h")["failures"] == [one]
    assert as_json("failures", "queueapp.note:default", "--since", "1h")["failures"] == []
    assert "at most 24h" in refused("failures", "--since", "2d")


def test_a_time_of_some_seconds_more_is_not_cut_to_minutes(monkeypatch):
    now = start_of(this_minute("default")) + 4
    monkeypatch.setattr(monitor, "this_minute", lambda _alias: now)
    count(1, ago=this_minute("default") - (now - 10))
    assert as_json("failures", "--since", "9m")["failures"] == []
    assert len(as_json("failures", "--since", "9m15s")["failures"]) == 1


def test_kinds_are_found_by_the_filters_of_the_verbs():
    count(1)
    count(1, NO_PAPER, ago=180)
    failed(NO_PAPER)

    def words(*options):
        return [one["message"] for one in as_json("failures", *options)["failures"]]

    assert sorted(words()) == ["no file #", "no paper"]
    assert words("--error", "NO PAP") == words("--error", "no paper") == ["no paper"]
    assert words("--error", type(NO_PAPER).__name__.lower(), "--failure", "x") == []
    assert words("--failure", kind().fingerprint) == ["no file #"]
    assert words("--newer-than", "1h") == words("--since", "1h") == ["no file #"]
    assert words("--newer-than", "1h", "--error", "no paper") == []
    assert dbqueue("failures", "--error", "nowhere") == "no failures\n"


def test_a_failure_says_which_jobs_are_meant():
    mine, other, again = failed(), failed(NO_PAPER), retrying()
    name = kind().fingerprint
    assert as_json("failed", "--failure", name)["failed"][0]["id"] == mine.pk
    assert as_json("retry", "--failure", name)["changed"] == 1
    assert (fresh(mine).status, fresh(other).status) == (Status.READY, Status.BURIED)
    assert as_json("cancel", "--failure", name, "--yes")["changed"] == 1
    assert not Note.objects.filter(pk=again.pk).exists()
    assert fresh(other).failure == kind(NO_PAPER).fingerprint
    assert dbqueue("retry", "--failure", "unknown") == "no job matches\n"


@pytest.mark.parametrize("option", ["--failure", "--error"])
def test_an_option_that_a_script_left_empty_means_no_job_rather_than_all(option):
    job = failed()
    with pytest.raises(CommandError, match=f"argument {option}: must not be empty"):
        dbqueue("cancel", "queueapp.note", option, "", "--yes")
    assert fresh(job).status == Status.BURIED


def test_two_words_for_a_queue_are_refused():
    why = refused("failures", "queueapp.note:default", "--queue", "big")
    assert "names its queue: give no --queue with it" in why
