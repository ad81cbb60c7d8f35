"""Counting the jobs of each queue and state in the background: against the database's own count,
by one at a time, in small statements, and not at the cost of jobs."""

import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import archive
from django_dbqueue.metrics import counting, walks
from django_dbqueue.metrics.backlogs import sample_backlogs
from django_dbqueue.metrics.counting import DEAD_AFTER, DONE, OPEN, JobCounter, begin, counted, due
from django_dbqueue.metrics.numbers import Stored
from django_dbqueue.metrics.walks import Pace
from django_dbqueue.models import Minute, QueueCount, TableCount
from django_dbqueue.models.total import OTHERS
from django_dbqueue.states import Status
from tests.kit.counting import count_all, real, stored
from tests.kit.inline_worker import work_off
from tests.kit.jobs import buried, claimed, done, row_locked, table
from tests.kit.processes import worker
from tests.kit.query_plans import captured
from tests.kit.waiting import wait_until
from tests.queueapp.keyed import Shared
from tests.queueapp.models import ArchivedBig, Big, Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]


@pytest.fixture
def small_steps(monkeypatch):
    """A few rows a statement."""
    monkeypatch.setattr(walks, "ROWS_FIRST", 3)
    monkeypatch.setattr(walks, "ROWS_MAX", 3)


def scattered(model=Note, number=80, seed=1):
    """Jobs in all states, of several queues and priorities."""
    chance = random.Random(seed)
    names = ["a", "b", "customer@1", "customer@2", "zoë", "Z"]
    QuerySet(model).bulk_create(
        model(
            queue=chance.choice(names),
            priority=chance.choice([0, 1024, 2**32 - 1]),
            **as_left_in(chance.choice([*Status])),
        )
        for _ in range(number)
    )


def as_left_in(status):
    """Columns as the lifecycle leaves them, as far as indexes know."""
    moves = timezone.now() if status in {Status.CLAIMED, Status.DELAYED} else None
    return {"status": status, "retry_at": moves}


@pytest.mark.parametrize("seed", range(3))
def test_what_is_counted_in_small_steps_is_what_the_database_counts(small_steps, seed):
    scattered(seed=seed)
    count_all(Note)
    assert stored(Note) == real(Note)


def test_it_is_true_again_after_all_that_may_happen_to_jobs(small_steps, log):
    for number in range(4):
        Note.objects.create(queue="worked", log=log, action="fail" if number % 2 else "")
        Note.objects.create(queue="gone")
        buried(queue="kicked")
        done(queue="kept")
    claimed(queue="held")
    count_all(Note)
    assert stored(Note) == real(Note)
    work_off("queueapp.note:worked")  # some are to be tried again
    Note.objects.filter(queue="kicked").kick()
    with connection.cursor() as cursor:  # by hand
        cursor.execute("DELETE FROM queueapp_note WHERE queue = 'gone'")
        cursor.execute("UPDATE queueapp_note SET status = 4 WHERE queue = 'kept'")
    assert stored(Note) != real(Note)
    count_all(Note)
    assert stored(Note) == real(Note)
    assert not any(queue == "gone" for queue, _ in stored(Note))


def test_what_was_archived_is_counted_no_more():
    now = timezone.now()
    Big.objects.bulk_create(Big() for _ in range(5))
    done_now = {"status": Status.DONE, "finished_at": now, "retry_at": now}
    QuerySet(Big).update(**done_now)
    count_all(Big)
    assert stored(Big) == {("default", Status.DONE): 5}
    assert archive.archive(table(Big)) == 5
    count_all(Big)
    assert stored(Big) == {} == real(Big)
    ArchivedBig.objects.all().delete()


@pytest.mark.parametrize("alike_max", [10, 1_000])
def test_more_alike_than_one_statement_reads_are_counted_once_each(
    small_steps, monkeypatch, alike_max
):
    monkeypatch.setattr(walks, "ALIKE_MAX", alike_max)
    scattered(number=20)
    at = timezone.now()
    for status in (Status.CLAIMED, Status.DELAYED):
        Note.objects.bulk_create(Note(queue="same") for _ in range(40))
        QuerySet(Note).filter(status=Status.READY, queue="same").update(status=status, retry_at=at)
    count_all(Note)
    assert stored(Note) == real(Note)


def test_jobs_that_are_delayed_until_the_same_moment_have_no_other_jobs_read(small_steps):
    Note.objects.bulk_create(Note(queue="same") for _ in range(40))
    QuerySet(Note).update(status=Status.DELAYED, retry_at=timezone.now())
    with captured("queueapp_note") as statements:
        for _ in walks.count(table(), Status.DELAYED, Pace(), found := Counter()):
            pass
    assert found == {"same": 40}
    assert not [one.sql for one in statements if "1 = 1" in one.sql]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="no other has such times")
def test_times_without_an_end_and_hours_that_come_twice_are_counted(small_steps):
    scattered(number=30)
    moves = ["infinity", "-infinity", *(f"2026-10-25 00:{n:02}+00" for n in range(60))]
    moves += [f"2026-10-25 01:{n:02}+00" for n in range(60)]
    Note.objects.bulk_create(Note(queue="odd") for _ in moves)
    with connection.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'Europe/Berlin'")
        for moment, key in zip(moves, QuerySet(Note).filter(queue="odd"), strict=True):
            sql = "UPDATE queueapp_note SET status = 3, retry_at = %s WHERE id = %s"
            cursor.execute(sql, [moment, key.pk])
    count_all(Note)
    assert stored(Note) == real(Note)
    connection.close()


def test_jobs_that_wait_for_their_keys_are_counted_as_delayed(small_steps):
    for number in range(12):
        Shared.objects.create(tenant=f"k{number % 3}", queue=f"q{number % 2}")
    Shared.objects.enqueue(tenant="k1", delay=60)
    QuerySet(Shared).filter(status=Status.READY, queue="q1").update(status=Status.DELAYED)
    count_all(Shared)
    assert stored(Shared) == real(Shared)
    assert stored(Shared)["q1", Status.DELAYED] == 6


def test_jobs_that_come_in_while_they_are_counted_are_not_counted_twice(small_steps):
    scattered(number=30)
    row = taken(OPEN)
    steps = counted(table(), *row)
    for _ in range(5):
        next(steps)
        Note.objects.bulk_create([Note(queue="zz") for _ in range(9)])
    for _ in steps:
        pass
    assert stored(Note)["zz", Status.READY] in {0, 45}
    others = {place: n for place, n in real(Note).items() if place[1] != Status.DONE}
    assert {**stored(Note), ("zz", Status.READY): 45} == others


def taken(part):
    """A part of the notes' table, to be counted by us."""
    row, _ = TableCount.objects.get_or_create(job_table=table().job_table, part=part)
    return row, begin("default", row)


def names_due():
    return {row.part for row in due("default", [table().job_table])}


def test_a_table_is_counted_by_one_at_a_time_and_when_its_pause_is_over():
    assert due("default", [table().job_table]) == []  # now there are rows
    assert names_due() == {OPEN, DONE}
    row, version = taken(OPEN)
    assert begin("default", row) is None
    assert names_due() == {DONE}
    Note.objects.create()
    for _ in counted(table(), row, version):
        pass
    assert names_due() == {DONE}
    TableCount.objects.filter(part=OPEN).update(touched_at=DbNow(plus=-31))
    assert names_due() == {OPEN, DONE}


def test_a_table_that_was_renamed_in_capitals_is_counted_by_its_new_name():
    Note.objects.create(queue="a")
    before = table().job_table.upper()
    for part in (OPEN, DONE):
        TableCount.objects.create(job_table=before, part=part)
    QueueCount.objects.create(job_table=before, queue="a", status=Status.READY, jobs=1)
    counter = JobCounter([table()])
    for _ in range(20):
        counter._look_at = 0.0
        counter.write()
    assert stored(Note) == {("a", Status.READY): 1}
    [counted] = QueueCount.objects.filter(job_table=table().job_table)
    assert counted.job_table == table().job_table


def test_when_the_clock_was_set_back_counts_go_on_and_those_of_before_have_no_age():
    Note.objects.create()
    count_all(Note)
    assert Stored(table()).ages.keys() == {*Status}
    TableCount.objects.update(touched_at=DbNow(plus=3600), counted_at=DbNow(plus=3600))
    assert Stored(table()).ages == {}
    assert str(Stored(table()).count(Status.READY, 1)) == "1+"
    sample_backlogs([table()])
    assert not Minute.objects.exists()
    assert names_due() == {OPEN, DONE}
    count_all(Note)
    assert Stored(table()).ages.keys() == {*Status}
    assert names_due() == set()


def test_where_the_tables_of_counts_are_missing_they_are_asked_for_seldom(monkeypatch):
    counter = JobCounter([table()])
    counter._look_at = 0.0
    monkeypatch.setattr(TableCount._meta, "db_table", "no_such_table")
    with pytest.raises(DatabaseError):
        counter.write()
    assert counter._look_at > time.monotonic() + counting.LOOK_SECONDS


def test_who_died_while_counting_is_replaced_and_writes_nothing_if_he_wakes(small_steps):
    scattered(number=20)
    row, version = taken(OPEN)
    frozen = counted(table(), row, version)
    next(frozen)
    TableCount.objects.filter(part=OPEN).update(touched_at=DbNow(plus=-DEAD_AFTER - 1))
    [late] = [row for row in due("default", [table().job_table]) if row.part == OPEN]
    again = counted(table(), late, begin("default", late))
    Note.objects.all().delete()
    Note.objects.create(queue="new")
    for _ in again:
        pass
    assert stored(Note) == {("new", Status.READY): 1}
    for _ in frozen:
        pass
    assert stored(Note) == {("new", Status.READY): 1}
    assert TableCount.objects.get(part=OPEN).version == version + 2


def test_counting_takes_a_twentieth_of_a_connection_at_the_most():
    row = TableCount(part=OPEN, largest=10**7, seconds=4.0)
    assert counting.pause_after(row, 1) == 80
    row.part = DONE
    assert counting.pause_after(row, 1) == 400
    few = TableCount(part=OPEN, largest=1000, seconds=0.01)
    assert [counting.pause_after(few, tables) for tables in (1, 10, 50, 1000)] == [30, 30, 150, 300]
    assert counting.pause_after(TableCount(part=OPEN, largest=1001, seconds=0.01), 100) == 10
    assert counting.pause_after(TableCount(part=OPEN, is_counting=True), 100) == DEAD_AFTER


def test_a_slow_database_is_asked_for_less_at_once():
    pace = Pace()
    for _ in range(20):
        pace.took(0.001)
    assert pace.rows == walks.ROWS_MAX
    for _ in range(10):
        pace.took(1.0)
    assert pace.rows == walks.ROWS_FIRST
    assert pace.seconds == pytest.approx(10.02)
    pace.took(0.001)
    assert pace.rows == 2 * walks.ROWS_FIRST


@pytest.mark.skipif(
    not connection.features.supports_partial_indexes, reason="an index holds all that is asked"
)
@pytest.mark.parametrize("status", [Status.BURIED, Status.DELAYED, Status.DONE])
def test_where_rows_are_read_a_step_begins_small_and_stays_small(monkeypatch, status):
    monkeypatch.setattr(walks, "ROWS_FIRST", 3)
    monkeypatch.setattr(walks, "TABLE_ROWS_MAX", 5)
    moves = timezone.now()
    for number in range(40):
        at = moves + timedelta(seconds=number)
        QuerySet(Note).filter(pk=Note.objects.create().pk).update(status=status, retry_at=at)
    pace = Pace()
    pace.rows = 100
    read = []
    for _ in walks.count(table(), status, pace, found := Counter()):
        read.append(pace.rows)
    assert found == {"default": 40}
    assert max(read) <= 5
    assert len(read) >= 8


def test_an_agent_counts_a_step_at_a_time(small_steps):
    scattered(number=30)
    counter = JobCounter([table(Note), table(Big)])
    turns = 0
    counter._look_at = 0.0
    counter.write()  # makes the rows
    assert counter.due_in() > 0
    counter._look_at = 0.0
    while counter.due_in() == 0:
        with captured("queueapp_note") as statements:
            counter.write()
        assert len(statements) <= 2
        turns += 1
    assert turns > 10
    assert stored(Note) == real(Note)
    assert TableCount.objects.filter(counted_at__isnull=False).count() == 4


def test_a_table_that_cannot_be_read_keeps_no_other_from_being_counted():
    Note.objects.create()
    broken = replace(table(Big), name="no_such_table")
    counter = JobCounter([broken, table(Note)])
    for _ in range(20):
        counter._look_at = 0.0
        with suppress(DatabaseError):
            counter.write()
    assert stored(Note) == real(Note)


def test_of_very_many_queues_those_with_most_jobs_are_told_apart(monkeypatch):
    monkeypatch.setattr(counting, "QUEUES_MAX", 3)
    for number in range(6):
        Note.objects.bulk_create(Note(queue=f"q{number}") for _ in range(number + 1))
    count_all(Note)
    expected = {"q5": 6, "q4": 5, "q3": 4, OTHERS: 6}
    assert stored(Note) == {(queue, Status.READY): n for queue, n in expected.items()}


def test_names_that_a_hand_wrote_are_counted_together():
    Note.objects.create()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE queueapp_note SET queue = ''")
    count_all(Note)
    assert stored(Note) == {(OTHERS, Status.READY): 1}


def test_jobs_that_go_their_way_write_no_counts(log):
    with captured("dbqueue_queuecount") as rows, captured("dbqueue_tablecount") as parts:
        for action in ("", "fail", "bury"):
            Note.objects.create(log=log, action=action)
        Note.objects.enqueue_many([{} for _ in range(20)])
        work_off("queueapp.note")
        Note.objects.buried().kick()
    assert rows == parts == []


def test_what_did_not_change_is_not_written_again():
    scattered(number=30)
    count_all(Note)
    keys = set(QueueCount.objects.values_list("pk", flat=True))
    Note.objects.create(queue="a")
    count_all(Note)
    assert len(keys - set(QueueCount.objects.values_list("pk", flat=True))) == 1


def test_of_a_count_that_is_too_old_no_backlog_is_noted():
    Note.objects.create()
    sample_backlogs([table()])
    count_all(Note)
    TableCount.objects.update(counted_at=DbNow(plus=-601))
    sample_backlogs([table()])
    assert not Minute.objects.exists()


def test_workers_count_and_the_next_one_does_what_a_killed_one_left(database_url):
    scattered(number=1_500)
    # Else they move while the worker counts, and it counts again after minutes.
    moving = QuerySet(Note).filter(retry_at__isnull=False)
    moving.update(retry_at=timezone.now() + timedelta(hours=1))
    with worker(database_url, "queueapp.Big") as process:
        wait_until(lambda: stored(Note) == real(Note))
        process.kill()
    # As if it had been killed at it, a minute ago.
    TableCount.objects.update(is_counting=True, touched_at=DbNow(plus=-DEAD_AFTER))
    QuerySet(Note).filter(queue="a").delete()
    with worker(database_url, "queueapp.Big"):
        wait_until(lambda: stored(Note) == real(Note))


@pytest.mark.skipif(connection.vendor == "sqlite", reason="it locks no rows")
def test_what_cannot_be_written_for_a_lock_is_written_later():
    Note.objects.create()
    row, version = taken(OPEN)
    steps = counted(table(), row, version)
    for _ in range(4):
        next(steps)
    with connection.cursor() as cursor:
        table().dialect.begin_own_session(cursor)
    with row_locked(row):
        next(steps)
        next(steps)
        assert stored(Note) == {}
    assert next(steps, None) is None
    assert stored(Note) == real(Note)
    connection.close()
