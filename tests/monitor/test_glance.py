"""What the first page is made of: the verdict, the last hour, what runs, what is due next."""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.fields import DbNow
from django_dbqueue.metrics import due
from django_dbqueue.metrics.time_series import Hour
from django_dbqueue.models import Queue
from django_dbqueue.models.minute import RAN, WAITED
from django_dbqueue.monitor import failures
from django_dbqueue.monitor.glance import Glance, glance
from django_dbqueue.monitor.last_hour import last_hour_of
from django_dbqueue.states import Status
from django_dbqueue.testing import virtual_clock
from django_dbqueue.worker.served import Served
from tests.kit.failures import NO_PAPER, count, failed
from tests.kit.jobs import claimed, overwrite
from tests.kit.overview import NOTE, Away, a_worker, minute
from tests.queueapp.models import Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")
TABLE = Note._meta.db_table


def look() -> Glance:
    return glance([Served(Note, "default")])


@pytest.fixture
def within_a_minute():
    with virtual_clock():
        yield


def queue(name="default"):
    [found] = [one for one in look().found.queues if one.queue == name]
    return found


# --- the verdict --------------------------------------------------------------------------------


def test_all_is_well_where_jobs_are_worked_off():
    Note.objects.create()
    a_worker()
    minute(3, completed=7)
    found = look().verdict
    assert found.level == "ok"
    said = "All is well: 1 worker at work, 1 job to do, 7 done in the last hour."
    assert (found.sentence, found.problems) == (said, [])


def test_what_is_paused_is_not_to_do():
    Note.objects.create()
    Queue.objects.pause(TABLE, "default", None, "tea")
    assert look().verdict.sentence == "All is well: nothing waits, 0 done in the last hour."


def test_a_queue_that_nobody_serves_is_to_be_acted_on():
    Note.objects.create()
    found = look().verdict
    assert found.level == "act"
    assert found.sentence == f"Act now: {NOTE}, queue default: no living worker serves it."
    [problem] = found.problems
    assert (problem.queue.queue, problem.state) == ("default", Status.READY)


def test_a_pause_is_no_problem_and_all_pauses_are_one_line():
    Note.objects.create(queue="a")
    Note.objects.create(queue="b")
    for name in "ab":
        Queue.objects.pause(TABLE, name, 3600, "tea")
    found = look().verdict
    assert (found.level, found.problems) == ("ok", [])
    assert found.paused == "Paused on purpose: 2 queues, 2 ready jobs in them."
    assert len(found.pauses) == 2


def test_jobs_that_failed_for_good_within_the_hour_are_worth_a_look():
    a_worker()
    failed(NO_PAPER)
    assert look().verdict.level == "ok"
    count(1, NO_PAPER, ago=200)
    assert look().verdict.level == "ok"
    count(1, NO_PAPER)
    found = look().verdict
    assert found.level == "look"
    said = "Worth a look: 1 attempt failed in the last hour, and 1 such job waits for a person"
    assert found.sentence == f"{said}: ValueError."


def test_of_many_exceptions_two_are_named_and_the_others_counted():
    a_worker()
    for error in (NO_PAPER, ValueError("no ink"), OSError("no file"), KeyError("x"), TypeError()):
        failed(error)
        count(1, error)
    said = look().verdict.sentence
    assert re.search(r"5 such jobs wait for a person: \w+, \w+ \(\+2\)\.$", said), said


def test_what_failed_lately_is_told_apart_from_what_has_waited_for_weeks():
    a_worker()
    for _ in range(3):
        overwrite(failed(NO_PAPER), failed_at=DbNow(plus=-14 * 86400))
    count(1, NO_PAPER)
    count(5, NO_PAPER, ago=200)
    said = "Worth a look: 1 attempt failed in the last hour, and 3 such jobs wait for a person"
    assert look().verdict.sentence == f"{said}: ValueError."


def test_what_is_urgent_comes_first_and_says_how_much_more_there_is():
    failed(NO_PAPER)
    count(1, NO_PAPER)
    Note.objects.create()
    found = look().verdict
    assert found.level == "act"
    assert "no living worker serves it. And 1 more problem." in found.sentence
    assert [one.kind for one in found.problems] == ["nobody", "buried"]


# --- the last hour ------------------------------------------------------------------------------


@pytest.mark.usefixtures("within_a_minute")
def test_the_hour_is_told_by_queue_the_busiest_first_and_the_rest_together():
    for n in range(7):
        minute(5, f"q{n}", completed=10 + n, failed=n)
    bands = look().last_hour.bands
    assert [band.name for band in bands] == [f"{NOTE}, q{n}" for n in (6, 5, 4, 3)] + ["3 others"]
    assert bands[0].values["done"][54] == 16
    assert bands[-1].values["done"][54] == 10 + 11 + 12
    assert bands[-1].values["failed"][54] == 0 + 1 + 2
    assert look().last_hour.total("done") == 70 + 21


def test_what_comes_in_is_what_is_done_and_what_the_backlog_grows_by():
    steady = Hour(per_minute=[10] * 60, backlogs=dict.fromkeys(range(60), 5))
    assert steady.in_per_minute == [10.0] * 60
    growing = Hour(per_minute=[10] * 60, backlogs={n: 5 * n for n in range(0, 60, 3)})
    assert growing.in_per_minute[30] == 15
    shrinking = Hour(per_minute=[10] * 60, backlogs={n: 2000 - 20 * n for n in range(60)})
    assert shrinking.in_per_minute[30] == 0


def test_workers_that_come_and_go_are_marked():
    a_worker(name="old", started_at=DbNow(plus=-7200), code_version=3)
    a_worker(name="same", started_at=DbNow(plus=-1200), code_version=3)
    a_worker(name="new", started_at=DbNow(plus=-600), code_version=4)
    gone = {"stopped_at": DbNow(plus=-60), "stop_reason": "SIGTERM"}
    a_worker(name="gone", started_at=DbNow(plus=-9000), **gone)
    marks = look().last_hour.marks
    assert [(mark.kind, mark.minute) for mark in marks] == [
        ("stop", 58),
        ("code", 49),
        ("start", 39),
    ]
    assert marks[0].text.endswith("stopped: SIGTERM")
    assert "new on web1" in marks[1].text
    assert marks[1].text.endswith("started, with code version 4")


def test_a_worker_on_two_databases_starts_once():
    a_worker(started_at=DbNow(plus=-600))
    found = look().found
    found.workers *= 2
    assert [mark.kind for mark in last_hour_of(found, []).marks] == ["start"]


def test_pauses_are_marked_when_they_begin_and_when_they_end():
    rows = Queue.objects.filter(job_table=TABLE, name="a")
    Queue.objects.pause(TABLE, "a", None, "tea")
    began = rows.get().paused_at
    Queue.objects.pause(TABLE, "a", 3600, "more tea")
    assert rows.get().paused_at == began, "it only goes on"
    assert [(m.kind, m.text) for m in look().last_hour.marks] == [
        ("pause", f"{NOTE}, queue a paused: more tea")
    ]
    Queue.objects.resume(TABLE, "a")
    assert [m.kind for m in look().last_hour.marks] == ["resume", "pause"]
    ended = rows.get().resumed_at
    Queue.objects.resume(TABLE, "a")
    assert rows.get().resumed_at == ended, "it had ended before"
    Queue.objects.pause(TABLE, "a", 3600, "tea")
    assert rows.get().paused_at > began
    rows.update(paused_at=DbNow(plus=-600), paused_until=DbNow(plus=-120))
    ran_out = look().last_hour.marks
    assert [(m.kind, m.minute) for m in ran_out] == [("resume", 57), ("pause", 49)]
    rows.update(paused_at=DbNow(plus=-7200), paused_until=DbNow(plus=-7000))
    assert look().last_hour.marks == []


@pytest.mark.skipif(connection.vendor != "sqlite", reason="elsewhere a column has its type")
@pytest.mark.parametrize("column", ["paused_at", "paused_until", "resumed_at"])
def test_what_a_hand_wrote_into_a_pause_has_no_mark_and_hides_nothing(column):
    Queue.objects.pause(TABLE, "a", 3600, "tea")
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {Queue._meta.db_table} SET {column} = 'zzz' WHERE name = 'a'")
    expected = [] if column == "paused_at" else ["pause"]
    assert [mark.kind for mark in look().last_hour.marks] == expected


def test_what_a_hand_moved_out_of_the_hour_has_no_mark():
    Queue.objects.pause(TABLE, "a", 3600, "tea")
    Queue.objects.filter(name="a").update(paused_at=DbNow(plus=20))
    a_worker(started_at=DbNow(plus=86_400))
    assert [(mark.kind, mark.minute) for mark in look().last_hour.marks] == [("pause", 59)]


# --- the queues ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("within_a_minute")
def test_a_queue_tells_how_long_jobs_wait_and_run_and_when_all_are_done():
    for ago in range(1, 8):
        times: dict[str, Any] = {WAITED[4]: 20, RAN[2]: 20}
        minute(ago, completed=60, backlog=1000 + 30 * ago, **times)
    Note.objects.enqueue_many([{} for _ in range(15)])
    one = queue()
    assert (one.waited.p95, one.ran.p95) == (1, 0.1)
    # 30 a minute more are done than come in.
    assert one.drain_seconds == pytest.approx(30)


@pytest.mark.usefixtures("within_a_minute")
def test_a_queue_that_grows_is_never_done():
    for ago in range(1, 8):
        minute(ago, completed=60, backlog=1000 - 30 * ago)
    assert queue().drain_seconds is None, "nothing waits"
    Note.objects.create()
    assert math.isinf(queue().drain_seconds)
    Queue.objects.pause(TABLE, "default", None, "tea")
    assert queue().drain_seconds is None


def test_a_queue_tells_when_its_next_job_is_due():
    Note.objects.enqueue(delay=600)
    Note.objects.enqueue(delay=1200)
    Note.objects.enqueue(queue="other", delay=7200)
    overwrite(Note.objects.enqueue(queue="over", delay=1)[0], retry_at=DbNow(plus=-60))
    found = {one.queue: one.next_seconds for one in look().found.queues}
    assert found["over"] is None
    assert 500 < found["default"] <= 600
    assert 7000 < found["other"] <= 7200


# --- what runs ----------------------------------------------------------------------------------


def test_what_runs_is_told_with_its_queue_and_its_time_first_what_has_used_up_most():
    jobs = {"a": claimed(queue="a"), "b": claimed(queue="b")}
    ones = [
        {"job": f"{NOTE} {jobs['a'].pk}", "seconds": 15.0, "limit": 60.0},
        {"job": f"{NOTE} {jobs['b'].pk}", "seconds": 90.0, "limit": 60.0},
        {"job": f"{NOTE} 999999", "seconds": 1.0},
        {"job": f"{NOTE} not-a-key", "seconds": "long", "limit": "x"},
        {"job": "gone.table 7"},
    ]
    beats = DbNow(plus=60)
    a_worker(running={"7": ones}, pool={"slots": 8}, beat_at=beats)
    a_worker(running={"8": ones}, beat_at=DbNow(plus=-600))  # it is dead
    found = look()
    told = [(slot.key, slot.queue, slot.seconds, slot.limit) for slot in found.running]
    assert told[:2] == [
        (str(jobs["b"].pk), "b", 90.0, 60.0),
        (str(jobs["a"].pk), "a", 15.0, 60.0),
    ]
    assert [one[1] for one in told[2:]] == [None, None, None]
    queues = {one.queue: (one.busy, one.slots) for one in found.found.queues}
    assert queues["a"] == queues["b"] == (1, 8)
    assert queues["default"] == (0, 8)


# --- what is due --------------------------------------------------------------------------------


def test_stretches_begin_where_the_clock_does():
    now = datetime(2026, 3, 1, 23, 58, 31, tzinfo=UTC)
    hour = due.stretches(now, due.FIVE_MINUTES, 12)
    assert (hour[0].begin, hour[0].end) == (None, datetime(2026, 3, 2, tzinfo=UTC))
    assert (hour[1].begin, hour[-1].end) == (hour[0].end, hour[0].end + timedelta(minutes=55))
    day = due.stretches(now, due.ONE_HOUR, 24)
    assert day[0].end == datetime(2026, 3, 2, tzinfo=UTC)


def test_what_is_due_is_counted_by_stretches_of_time(monkeypatch):
    for delay in (1, 4000, 4000, 4000, 200_000):
        Note.objects.enqueue(delay=delay)
    Note.objects.create()
    found = look().due[NOTE]
    assert sum(one.number for one in found.hour) == 1
    assert sum(one.number for one in found.day) == 4
    assert max(one.number for one in found.day) == 3
    assert found.later.number == 1
    assert not any(one.is_at_least for one in found.day)
    monkeypatch.setattr(due, "STRETCH_MAX", 2)
    assert sum(one.is_at_least for one in look().due[NOTE].day) == 1


def test_a_table_without_delayed_jobs_has_nothing_due():
    Note.objects.create()
    assert look().due == {}


# --- what it costs ------------------------------------------------------------------------------


def statements():
    with CaptureQueriesContext(connection) as captured:
        look()
    return len(captured)


def test_the_number_of_statements_does_not_grow_with_rows():
    a_worker()
    for delay in (None, 60):
        Note.objects.enqueue(delay=delay)
    claimed()
    failed()
    count(1)
    minute(3, completed=1)
    few = statements()
    for delay in (None, 60, 4000):
        for _ in range(30):
            Note.objects.enqueue(delay=delay)
    for _ in range(20):
        claimed()
        failed()
    for ago in range(10, 60):
        minute(ago, completed=1)
    assert statements() == few


def test_the_number_of_statements_is_bounded_however_many_queues_there_are():
    def fill(names):
        Note.objects.bulk_create([Note(queue=f"q{n:04}") for n in names])

    fill(range(110))
    some = statements()
    fill(range(110, 400))
    # Their first jobs are found by one statement for each hundred, up to a thousand.
    assert statements() == some + 3


def test_a_database_that_is_away_is_asked_once_and_hides_nothing_else(settings):
    Note.objects.create()
    away = Away(Note)
    try:
        settings.DATABASE_ROUTERS = [away]
        found = glance()
        assert "database 'away'" in found.found.problems
        assert found.failures.problems == {}
        assert found.verdict.level == "act"
        assert any(one.table != NOTE for one in found.found.queues)
    finally:
        settings.DATABASE_ROUTERS = []
        away.end()


@pytest.fixture
def failures_away(monkeypatch):
    """Failures cannot be asked, and how often somebody tried."""
    tried = []

    def look(served):
        tried.append(served)
        raise OperationalError("the disk is full")

    monkeypatch.setattr(failures, "look", look)
    return tried


def test_failures_that_cannot_be_asked_are_a_problem_and_asked_once(failures_away):
    a_worker()
    Note.objects.enqueue(delay=60)
    found = glance([Served(Note, "default"), Served(Kept, "default")])
    assert found.found.problems == {"database 'default'": "the disk is full"}
    assert found.verdict.sentence == (
        "Act now: database 'default' cannot be asked: the disk is full"
    )
    assert len(failures_away) == 1


def test_a_table_whose_failures_cannot_be_asked_is_named_and_the_rest_goes_on(monkeypatch):
    def groups_of(served, *args):
        raise OperationalError("the disk is full")

    monkeypatch.setattr(failures, "groups_of", groups_of)
    Note.objects.enqueue(delay=60)
    found = look()
    assert found.found.problems == {NOTE: "the disk is full"}
    assert found.verdict.level == "act"
    assert list(found.due) == [NOTE]
