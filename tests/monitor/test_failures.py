"""What failed, kind by kind: counted, and acted on as it was counted."""

import pytest
from django.db import connection
from django.db.models import F

from django_dbqueue.mail.models import Email
from django_dbqueue.metrics import counts, recorder
from django_dbqueue.metrics.counts import UNKNOWN, Failed
from django_dbqueue.metrics.failures import rows_of, start_of
from django_dbqueue.metrics.recorder import add, this_minute
from django_dbqueue.models import FailureCount, FailureKind
from django_dbqueue.models.failure import OTHER
from django_dbqueue.monitor import failures as page
from django_dbqueue.monitor.failures import choice_of, failures, one_group
from django_dbqueue.operate.acting import KICK, Progress
from django_dbqueue.states import Status
from django_dbqueue.worker.served import Served
from tests.kit.failures import NO_FILE, NO_PAPER, count, failed, kind, look, retrying
from tests.kit.jobs import fresh, overwrite
from tests.kit.overview import Away
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
NOTES = Served(Note, "default")


def test_the_kinds_are_told_with_what_was_counted_and_what_is_here():
    count(3)
    count(2, queue="other")
    count(40, ago=120)
    count(1, NO_PAPER, ago=24 * 60 - 10)
    for _ in range(2):
        failed()
    retrying()
    first, second = look().groups
    assert (first.failure.words, first.hour, first.day) == ("no file #", 5, 45)
    assert (first.per_point[-1], first.per_point[-5], sum(first.per_point)) == (5, 40, 45)
    assert (first.queues, first.here) == (["default", "other"], Failed(2, 1))
    assert first.first_seen <= first.last_seen
    assert (second.failure.words, second.hour, second.day) == ("no paper", 0, 1)
    assert (second.per_point[0], second.here) == (1, Failed())


def test_what_is_older_than_a_day_is_not_counted_but_its_jobs_are():
    count(7, ago=24 * 60 + 10)
    assert look().groups == []
    failed()
    [group] = look().groups
    assert (group.day, group.here.buried, group.failure) == (0, 1, kind())


def test_jobs_that_no_worker_has_counted_are_told_by_their_errors():
    job = failed()
    [group] = look().groups
    assert group.failure == kind()
    assert (group.day, group.last_seen, group.here) == (0, None, Failed(1))
    overwrite(job, errors="what a hand wrote")
    [group] = look().groups
    assert (group.fingerprint, group.failure.words) == (job.failure, "what a hand wrote")
    overwrite(job, errors=[])
    [group] = look().groups
    assert (group.fingerprint, group.failure.words, group.here) == (job.failure, "", Failed(1))


@pytest.mark.parametrize("ahead", [5, 29, 31, 24 * 60, 48 * 60])
def test_what_is_counted_after_the_minute_was_read_is_the_newest(monkeypatch, ahead):
    """As five minutes begin between two statements, or the clock was set back."""
    count(3)
    before = this_minute("default") - ahead
    monkeypatch.setattr(page, "this_minute", lambda _alias: before)
    [group] = look().groups
    assert (group.hour, group.day, group.per_point[-1]) == (3, 3, 3)


@pytest.mark.parametrize("written", [2**60, -(2**60), 2**35, "yesterday"])
def test_a_time_that_no_worker_writes_hides_no_failure(written):
    if connection.vendor != "sqlite" and isinstance(written, str):
        return  # the others keep no text there
    count(3)
    with connection.cursor() as cursor:
        sql = f"UPDATE {FailureKind._meta.db_table} SET first_seen = %s, last_seen = %s"
        cursor.execute(sql, [written, written])
    [group] = look().groups
    assert (group.first_seen, group.last_seen, group.hour) == (None, None, 3)


def test_what_found_no_room_is_one_group():
    count(1)
    FailureCount.objects.update(fingerprint=OTHER)
    [group] = look().groups
    assert (group.is_other, group.day, group.here) == (True, 1, UNKNOWN)


@pytest.mark.parametrize("into", range(5), ids="{} minutes into the five".format)
def test_a_time_has_all_that_failed_within_it(monkeypatch, into):
    """And at the most what failed in the five minutes before: these are counted together."""
    now = start_of(this_minute("default")) + into
    monkeypatch.setattr(recorder, "this_minute", lambda _alias: now)
    monkeypatch.setattr(page, "this_minute", lambda _alias: now)
    for ago in (1, 3, 7, 30, 57, 60, 24 * 60):
        FailureCount.objects.all().delete()
        count_at(now - ago)
        [group] = look(minutes=ago).groups
        assert (group.hour, group.day, sum(group.per_point)) == (ago <= 60, 1, 1)
        FailureCount.objects.all().delete()
        count_at(now - ago - 5)
        assert look(minutes=ago).groups == []


def count_at(minute):
    for rows, its in rows_of("default", Note._meta.db_table, "default", minute, {kind(): 1}):
        rows.update(failed=F("failed") + its)


def test_a_time_and_a_queue_leave_out_the_others():
    count(1)
    count(1, NO_PAPER, "other", ago=90)
    failed(NO_PAPER, queue="other")
    failed(KeyError("of no worker's"))
    assert [one.failure for one in look(minutes=60).groups] == [kind()]
    [group] = look(queues=["other"]).groups
    assert (group.failure, group.day, group.here) == (kind(NO_PAPER), 1, Failed(1))
    [group] = failures([Served(Note, "default", "other")]).groups
    assert group.here == Failed(1)


def test_a_queue_has_the_lanes_in_which_something_failed():
    for queue in ("default@smtp", "other@smtp"):
        add(("default", Email._meta.db_table, queue), {"failed": 2}, {kind(): 2})
    [group] = failures([Served(Email, "default", "default")]).groups
    assert (group.queues, group.day) == (["default@smtp"], 2)


def test_a_pattern_has_the_queues_that_match_it_and_no_others():
    for queue in ("mail.a", "mail.b", "other"):
        count(2, queue=queue)
        failed(queue=queue)
    [group] = failures([Served(Note, "default", "mail.*")]).groups
    assert (group.queues, group.day, group.here) == (["mail.a", "mail.b"], 4, Failed(2))
    assert failures([Served(Note, "default", "sms.*")]).groups == []


def act(until, fingerprint, **more):
    progress = Progress(KICK, **more)
    for keyset in choice_of(fingerprint, until).keysets(NOTES, KICK.sources):
        progress.do(keyset)
    return progress


def test_what_a_person_does_is_done_to_those_that_were_shown_and_counted():
    shown = [failed() for _ in range(3)]
    others = [failed(NO_PAPER), retrying()]
    found = look()
    group = next(one for one in found.groups if one.failure == kind())
    later = failed()
    assert act(found.shown_at["default"], group.fingerprint).taken == group.here.buried == 3
    assert {fresh(job).status for job in shown} == {Status.READY}
    assert [fresh(job).status for job in [*others, later]] == [
        Status.BURIED,
        Status.DELAYED,
        Status.BURIED,
    ]
    assert look().groups[0].here.buried == 1


def test_where_there_are_many_each_kind_is_counted_to_a_bound(monkeypatch):
    for error in (NO_FILE, NO_PAPER):
        for _ in range(3):
            failed(error)
    retrying(NO_PAPER)
    monkeypatch.setattr(counts, "FAILED_MAX", 2)
    monkeypatch.setattr(counts, "KIND_MAX", 2)
    found = look()
    assert {one.here for one in found.groups} == {Failed(2, 0, True), Failed(2, 1, True)}
    # Of one that somebody wants to act on all are counted.
    [exact] = [one_group(NOTES, kind().fingerprint, found.shown_at["default"])]
    assert exact.here == Failed(3)
    assert one_group(NOTES, "nothing", found.shown_at["default"]) is None


def test_a_queue_is_looked_for_among_a_bounded_number_of_each_kind(monkeypatch):
    for queue in ("other", "other", "one"):
        failed(queue=queue)
    [group] = look(queues=["one"]).groups
    assert group.here == Failed(1)
    monkeypatch.setattr(counts, "FAILED_MAX", 2)
    [group] = look(queues=["other"]).groups
    assert group.here == Failed(2, 0, True)
    [group] = look(queues=["one"]).groups
    assert group.here.is_at_least


def test_of_very_many_kinds_those_are_told_of_which_most_are_here(monkeypatch):
    monkeypatch.setattr(counts, "KINDS_MAX", 2)
    for word in ("ape", "bee", "bee", "cat", "cat", "cat"):
        failed(OSError(word))
    assert [one.failure.words for one in look().groups] == ["cat", "bee"]


def words_here(found):
    return {one.failure.words: one.here for one in found.groups}


def test_what_failed_lately_is_told_before_kinds_with_more_jobs(monkeypatch):
    monkeypatch.setattr(counts, "KINDS_MAX", 2)
    for word in ("ape", "bee", "bee", "cat", "cat"):
        failed(OSError(word))
    count(1, OSError("ape"))
    found = look()
    assert words_here(found)["ape"] == Failed(1)
    assert (len(found.groups), found.more_kinds) == (2, ["queueapp.note"])


@pytest.mark.parametrize("failed_max", [2, 20_000])
def test_of_no_kind_that_failed_lately_jobs_are_told_as_none(monkeypatch, failed_max):
    """Nor is a large kind behind many small ones, by their fingerprints, left out."""
    monkeypatch.setattr(counts, "KINDS_MAX", 5)
    monkeypatch.setattr(counts, "FAILED_MAX", failed_max)
    words = ("ape", "bee", "cat", "dog", "eel")
    for word in words:
        failed(OSError(word))
        count(1, OSError(word))
    last = max(words, key=lambda word: kind(OSError(word)).fingerprint)
    for _ in range(2):
        failed(OSError(last))
    found = look()
    assert words_here(found) == dict.fromkeys(words, Failed(1)) | {last: Failed(3)}
    assert found.more_kinds == []


def test_a_large_kind_that_nobody_counted_is_found_behind_small_ones(monkeypatch):
    monkeypatch.setattr(counts, "KINDS_MAX", 3)
    monkeypatch.setattr(counts, "FAILED_MAX", 4)
    words = sorted(
        ("ape", "bee", "cat", "dog", "eel"), key=lambda word: kind(OSError(word)).fingerprint
    )
    for word in (*words, *(words[-1],) * 3):
        failed(OSError(word))
    found = look()
    assert words_here(found)[words[-1]] == Failed(4)
    assert (len(found.groups), found.more_kinds) == (3, ["queueapp.note"])


def test_jobs_that_were_not_looked_for_are_not_told_as_none(monkeypatch):
    monkeypatch.setattr(counts, "KINDS_MAX", 1)
    monkeypatch.setattr(counts, "FAILED_MAX", 1)
    for word in ("ape", "bee", "bee", "cat"):
        failed(OSError(word))
        count(1, OSError(word))
    found = look()
    told = words_here(found)
    assert told["bee"] == Failed(2)
    assert {told[word] for word in ("ape", "cat")} <= {Failed(1), UNKNOWN}
    assert UNKNOWN in told.values()
    assert found.more_kinds == ["queueapp.note"]


def test_a_table_that_cannot_be_asked_hides_no_other():
    count(1)
    away = Away(Note)
    try:
        found = failures([NOTES, Served(Note, "away")])
    finally:
        away.end()
    assert [one.served.using for one in found.groups] == ["default"]
    assert list(found.problems) == ["queueapp.note"]
