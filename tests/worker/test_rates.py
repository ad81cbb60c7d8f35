"""Queues that have a rate: how often their jobs start, whichever worker starts them."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError

from django_dbqueue.checks.tables import check_settings
from django_dbqueue.diagnose import explain
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh, table
from tests.kit.processes import lines, worker
from tests.kit.rates import figures
from tests.kit.waiting import wait_until
from tests.queueapp.models import Kept, Note


def times_in(log: Path) -> list[float]:
    return sorted(map(float, lines(str(log))))


@pytest.mark.timing
@pytest.mark.proof
def test_four_workers_together_keep_a_rate_and_use_nearly_all_of_it(
    db_rows, database_url, tmp_path, full
):
    seconds, log = (20 if full else 4), tmp_path / "log"
    Note.objects.bulk_create(
        [Note(action="note_time", log=str(log)) for _ in range(50 * (seconds + 6))]
    )
    rate = {"DBQUEUE_QUEUES": '{"queueapp.note": {"rate": "50/s"}}'}
    with worker(database_url, "queueapp.note", "--processes", "4", **rate) as process:
        wait_until(lambda: times_in(log))
        began = times_in(log)[0]
        wait_until(
            lambda: time.monotonic() > began + seconds + 1.5, seconds=seconds + 30, every=0.2
        )
        process.send(signal.SIGTERM)
        process.end()
    most, share = figures(times_in(log), 50, until=began + 1 + seconds, since=began + 1)
    print(f"50/s, 4 processes, {seconds} s: most in any second {most}, {share:.1%} used")
    assert most <= 50
    assert share > (0.95 if full else 0.5)


@pytest.mark.timing
@pytest.mark.proof
def test_children_that_are_killed_lose_a_moment_s_tokens_and_never_more_start(
    db_rows, database_url, tmp_path, full
):
    seconds, log = (20 if full else 3), tmp_path / "log"
    Note.objects.bulk_create(
        [Note(action="note_time", log=str(log)) for _ in range(50 * (seconds + 6))]
    )
    rate = {"DBQUEUE_QUEUES": '{"queueapp.note": {"rate": "50/s"}}'}
    with worker(database_url, "queueapp.note", "--processes", "4", **rate) as process:
        wait_until(lambda: times_in(log))
        began = times_in(log)[0]
        for kill in range(1, seconds + 1):
            wait_until(lambda: time.monotonic() > began + kill, every=0.05)  # noqa: B023
            with suppress(ProcessLookupError, IndexError):
                os.kill(process.children()[kill % 4], signal.SIGKILL)
        wait_until(lambda: time.monotonic() > began + seconds + 1, every=0.05)
        process.send(signal.SIGTERM)
        process.end()
    most, share = figures(times_in(log), 50, until=began + 1 + seconds, since=began + 1)
    print(f"50/s, a kill a second, {seconds} s: most in any second {most}, {share:.1%} used")
    assert most <= 50
    assert share > 0.3


KEYED = {"QUEUES": {"queueapp.note": {"rate": "2/h", "rate_key": "{text}"}}}


def test_each_key_has_a_rate_and_a_lane_of_its_own(db_rows, settings):
    settings.DBQUEUE = KEYED
    notes = [Note.objects.create(text=text) for text in ["a", "a", "a", "b", "", "", ""]]
    assert [note.queue for note in notes[2:5]] == ["default@a", "default@b", "default"]
    work_off("queueapp.note")
    assert [fresh(note).status for note in notes] == [2, 2, 0, 2, 2, 2, 2]
    assert fresh(notes[2]).attempts == 0
    said = " ".join(explain(table(), notes[2].pk).sentences)
    assert "The rate of its queue, default@a (2 an hour), is used up for now." in said


def test_many_rows_at_once_get_their_lanes(db_rows, settings):
    settings.DBQUEUE = KEYED
    assert Note.objects.enqueue_many([{"text": text} for text in ("a", "b", "")]) == 3
    assert set(Note.objects.values_list("queue", flat=True)) == {
        "default",
        "default@a",
        "default@b",
    }


def work_off_one_by_one(label):
    for _ in range(5):
        work_off(label, "--once")


@pytest.mark.parametrize("work", [work_off, work_off_one_by_one])
def test_jobs_that_came_in_without_a_lane_are_moved_to_it(db_rows, settings, work):
    Note.objects.enqueue_many([{"text": "a"}] * 3)
    settings.DBQUEUE = KEYED
    work("queueapp.note")
    assert sorted(Note.objects.values_list("status", "queue", "attempts")) == [
        (0, "default@a", 0),
        (2, "default@a", 1),
        (2, "default@a", 1),
    ]


def test_jobs_that_are_there_with_keys_that_make_no_name_share_one_lane(db_rows, settings):
    for number in range(3):
        Note.objects.create(text=f"{number}" * 300)
    settings.DBQUEUE = KEYED
    said = work_off("queueapp.note")
    assert sorted(Note.objects.values_list("status", "queue", "attempts")) == [
        (0, "default@?", 0),
        (2, "default@?", 1),
        (2, "default@?", 1),
    ]
    assert "names no lane" in said


def test_a_key_that_makes_no_name_is_refused(db_rows, settings):
    settings.DBQUEUE = KEYED
    with pytest.raises(ValidationError, match="rate_key"):
        Note.objects.create(text="x" * 300)
    settings.DBQUEUE = {"QUEUES": {"queueapp.note": {"rate": "2/h", "rate_key": "{nothing}"}}}
    with pytest.raises(ValidationError, match="rate_key gave no key"):
        Note.objects.create(text="x")


def test_a_queue_with_a_rate_keeps_no_other_one_waiting(db_rows, settings):
    settings.DBQUEUE = {"QUEUES": {"queueapp.note:slow": {"rate": {"day": 1}}}}
    slow = [Note.objects.create(queue="slow") for _ in range(2)]
    quick = [Note.objects.create(queue="quick") for _ in range(20)]
    work_off("queueapp.note")
    assert [fresh(note).status for note in slow] == [2, 0]
    assert {fresh(note).status for note in quick} == {2}


@pytest.mark.parametrize("given", [{"rate": "50/x"}, {"rate_burst": 0}, {"rate_key": 7}])
def test_the_check_names_a_rate_that_makes_no_sense(settings, given):
    settings.DBQUEUE = {"QUEUES": {"queueapp.note": given}}
    assert [error.id for error in check_settings()] == ["dbqueue.E018"]


LANE = {"QUEUES": {"queueapp.kept": {"rate": "10/s", "rate_key": "x"}}}


def test_a_dedup_key_is_kept_within_a_lane(db_rows, settings):
    settings.DBQUEUE = LANE
    first, second = (Kept.objects.enqueue(dedup_key="k") for _ in range(2))
    assert (first.created, second.created) == (True, False)
    assert second.job.pk == first.job.pk
    assert first.job.queue == "default@x"


def test_a_job_whose_key_is_taken_in_the_lane_of_another_is_moved_without_it(db_rows, settings):
    assert Kept.objects.enqueue_many([{"dedup_key": "k"}, {"dedup_key": "l"}]) == 2
    settings.DBQUEUE = LANE
    Kept.objects.bulk_create([Kept(dedup_key="k", queue="default@x")])
    work_off("queueapp.kept")
    assert sorted(ended.queue for ended in Kept.objects.done()) == ["default@x"] * 3


def test_many_rows_at_once_double_no_dedup_key_of_a_lane(db_rows, settings):
    settings.DBQUEUE = LANE
    Kept.objects.enqueue(dedup_key="k")
    with pytest.raises(IntegrityError):
        Kept.objects.enqueue_many([{"dedup_key": "k"}])
