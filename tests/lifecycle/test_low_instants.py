"""Looks in the order of an instant begin where the last one ended, while whole ones are slow."""

import time
from datetime import timedelta

import pytest
from django.db import InterfaceError, connection
from django.utils import timezone

from django_dbqueue.lifecycle import archive, low_instants, low_water, promotion
from django_dbqueue.lifecycle.low_instants import LowInstant, LowInstants
from django_dbqueue.states import Status
from tests.kit.jobs import claimed, done, fresh, overwrite, reaper, table
from tests.kit.query_plans import captured, read_by
from tests.lifecycle.test_growth import snapshot
from tests.queueapp.models import ArchivedKept, Kept, Note, Pruned

pytestmark = pytest.mark.usefixtures("db_rows")

DEAD = 10_000
KEPT = Kept._meta.db_table


def ago(seconds):
    return timezone.now() - timedelta(seconds=seconds)


def finished(seconds, model=Kept):
    """A job whose time in its table was over so long ago."""
    overwrite(done(model), retry_at=ago(seconds), finished_at=ago(seconds + 3600))


@pytest.fixture
def slow(monkeypatch):
    """Every whole look counts as slow, and the next one comes when the test says so."""
    monkeypatch.setattr(low_water, "CHEAP", -1.0)
    monkeypatch.setattr(low_water, "TRIPS", 0.0)
    monkeypatch.setattr(low_instants, "SLOW_LOOKS", 1)
    monkeypatch.setattr(low_instants, "SHARE", 1e9)
    monkeypatch.setattr(low_instants, "LONGEST", 3600.0)
    monkeypatch.setattr(low_instants, "CHUNK", 3)


def later(monkeypatch):
    """It is time for a whole look."""
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + 3601)


def test_finished_jobs_are_looked_for_from_where_the_last_look_ended(monkeypatch, slow):
    low = LowInstant()
    for seconds in range(100, 107):
        finished(seconds)
    assert [archive.archive(table(Kept), low) for _ in range(4)] == [3, 3, 1, 0]
    finished(500)
    assert archive.archive(table(Kept), low) == 0
    finished(50)
    later(monkeypatch)
    assert archive.archive(table(Kept), low) == 2


def test_there_is_no_floor_while_whole_looks_are_quick(monkeypatch):
    monkeypatch.setattr(low_water, "CHEAP", 3600.0)
    low = LowInstant()
    finished(100)
    with captured(KEPT) as statements:
        assert [archive.archive(table(Kept), low) for _ in range(2)] == [1, 0]
    finished(500)
    assert archive.archive(table(Kept), low) == 1
    assert not [one for one in statements if ">=" in one.sql or "CAST" in one.sql]


def test_a_look_that_was_slow_once_or_twice_is_no_reason(monkeypatch, slow):
    monkeypatch.setattr(low_instants, "SLOW_LOOKS", 3)
    low = LowInstant()
    for seconds in (100, 500, 900):
        finished(seconds)
        assert archive.archive(table(Kept), low) == 1
    finished(50)
    assert archive.archive(table(Kept), low) == 1
    finished(1000)
    assert archive.archive(table(Kept), low) == 0


def test_the_floor_goes_once_a_whole_look_is_quick(monkeypatch, slow):
    low = LowInstant()
    finished(100)
    assert [archive.archive(table(Kept), low) for _ in range(2)] == [1, 0]
    assert low.above("retry_at")[1]
    monkeypatch.setattr(low_water, "CHEAP", 3600.0)
    later(monkeypatch)
    assert archive.archive(table(Kept), low) == 0
    assert low.above("retry_at") == ("", [])


def test_archived_jobs_are_looked_for_from_where_the_last_look_ended(monkeypatch, slow):
    lows = LowInstants()
    for number in range(5):
        ArchivedKept.objects.create(id=number, finished_at=ago(9000 - number), status=Status.DONE)
    assert [archive.prune(table(Kept), lows) for _ in range(3)] == [3, 2, 0]
    ArchivedKept.objects.create(id=9, finished_at=ago(99_000), status=Status.DONE)
    assert archive.prune(table(Kept), lows) == 0
    later(monkeypatch)
    assert archive.prune(table(Kept), lows) == 1


def test_finished_jobs_are_pruned_from_where_the_last_look_ended(monkeypatch, slow):
    lows = LowInstants()
    for seconds in range(100, 105):
        finished(seconds, Pruned)
    assert [archive.prune(table(Pruned), lows) for _ in range(3)] == [3, 2, 0]
    finished(500, Pruned)
    assert archive.prune(table(Pruned), lows) == 0
    later(monkeypatch)
    assert archive.prune(table(Pruned), lows) == 1


def test_due_jobs_are_looked_for_from_where_the_last_look_ended(monkeypatch, slow):
    lows = LowInstants()
    for seconds in range(100, 105):
        Note.objects.enqueue(retry_at=ago(seconds))
    assert [promotion.promote(table(), lows.delayed) for _ in range(3)] == [3, 2, 0]
    Note.objects.enqueue(retry_at=ago(500))
    assert promotion.promote(table(), lows.delayed) == 0
    later(monkeypatch)
    assert promotion.next_moves(table(), lows)[0] == pytest.approx(-500, abs=60)
    assert promotion.promote(table(), lows.delayed) == 1


def test_what_moves_next_is_looked_for_from_where_the_last_look_ended(monkeypatch, slow):
    lows = LowInstants()
    assert [promotion.next_moves(table(), lows) for _ in range(2)] == [(None, None)] * 2
    job = claimed()
    Note.objects.enqueue(delay=60)
    # That is not soon.
    assert promotion.next_moves(table(), lows) == (None, None)
    Note.objects.enqueue(retry_at=ago(500))
    overwrite(job, retry_at=ago(500))
    assert promotion.next_moves(table(), lows) == (None, None)
    later(monkeypatch)
    found = promotion.next_moves(table(), lows)
    assert found == (pytest.approx(-500, abs=60), pytest.approx(-500, abs=60))


def test_what_is_due_stays_in_sight_until_it_has_moved(slow):
    lows = LowInstants()
    assert promotion.next_moves(table(), lows) == (None, None)
    job = claimed()
    overwrite(job, retry_at=ago(30))
    for _ in range(3):
        _, over = promotion.next_moves(table(), lows)
        assert over < 0
    overwrite(job, retry_at=ago(-3600))
    assert promotion.next_moves(table(), lows) == (None, pytest.approx(3600, abs=60))
    assert promotion.next_moves(table(), lows) == (None, None)


def test_a_commit_that_comes_a_moment_late_is_seen_at_once(monkeypatch, slow):
    monkeypatch.setattr(low_instants, "LATE", 60.0)
    low = LowInstant()
    assert [archive.archive(table(Kept), low) for _ in range(2)] == [0, 0]
    finished(30)
    assert archive.archive(table(Kept), low) == 1
    for seconds in (20, 21, 22):
        finished(seconds)
    assert archive.archive(table(Kept), low) == 3  # as many as a look takes
    finished(30)
    assert archive.archive(table(Kept), low) == 1


def test_a_reaper_remembers_it_table_by_table(slow):
    turns = reaper(Kept, Pruned)
    for model in (Kept, Pruned):
        finished(100, model)
    for _ in range(2):
        turns.turn(judge=lambda: False)
        turns.clean_at.clear()
    finished(1)
    with captured(KEPT) as statements:
        moved, _ = turns.turn(judge=lambda: False)
    assert moved.archived == 1
    looks = [one.sql for one in statements if "ORDER BY" in one.sql and "LIMIT" in one.sql]
    assert looks
    assert all(">=" in sql for sql in looks), looks


def test_a_delayed_job_becomes_ready_while_whole_looks_are_slow(slow):
    turns = reaper(Note)
    for _ in range(2):
        turns.turn(judge=lambda: True)
    job, _ = Note.objects.enqueue(retry_at=ago(0.5))
    moved, _ = turns.turn(judge=lambda: True)
    assert (moved.promoted, fresh(job).status) == (1, Status.READY)


def test_a_job_below_the_floor_is_promoted_by_the_next_whole_look(monkeypatch, slow):
    turns = reaper(Note)
    for _ in range(2):
        turns.turn(judge=lambda: True)
    job, _ = Note.objects.enqueue(retry_at=ago(500))
    assert turns.turn(judge=lambda: True)[0].promoted == 0
    later(monkeypatch)
    assert turns.turn(judge=lambda: True)[0].promoted == 1
    assert fresh(job).status == Status.READY


def test_after_an_error_all_is_looked_at_again(slow):
    """What was found may not have been moved; after a failover, what was moved may be as before."""
    turns = reaper(Note)
    for _ in range(2):
        turns.turn(judge=lambda: True)

    def lose(execute, sql, params, many, context):
        if sql.startswith("UPDATE"):
            raise InterfaceError("the connection is gone")
        return execute(sql, params, many, context)

    recent, _ = Note.objects.enqueue(retry_at=ago(0.5))
    old, _ = Note.objects.enqueue(retry_at=ago(500))
    with connection.execute_wrapper(lose), pytest.raises(InterfaceError):
        turns.turn(judge=lambda: True)
    assert turns.turn(judge=lambda: True)[0].promoted == 2
    assert {fresh(job).status for job in (recent, old)} == {Status.READY}


@pytest.mark.skipif(connection.vendor == "sqlite", reason="it keeps no dead rows in its indexes")
def test_a_look_from_a_floor_passes_over_no_dead_rows(monkeypatch):
    if connection.vendor == "mysql" and not getattr(connection, "mysql_is_mariadb", False):
        pytest.skip("MySQL does not say what a statement reads")
    dialect = table().dialect
    dialect.keep_to_indexes()
    with snapshot():
        Kept.objects.enqueue_many({} for _ in range(DEAD))
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {KEPT} SET status = {Status.DONE:d}, finished_at = {dialect.now}, "
                f"retry_at = {dialect.now_plus('-60')}"
            )
        while archive.archive(table(Kept)):
            pass
        monkeypatch.setattr(low_water, "CHEAP", -1.0)
        monkeypatch.setattr(low_water, "TRIPS", 0.0)
        monkeypatch.setattr(low_instants, "SLOW_LOOKS", 1)
        low = LowInstant()  # that remembers none of the looks above, however slow they were
        with captured(KEPT) as statements:
            for _ in range(3):
                archive.archive(table(Kept), low)
        whole, _, above = map(read_by, statements)
        print(f"\npages: {whole} of a whole look, {above} of one from a floor")
        assert above < whole / 5


def test_instants_that_somebody_wrote_by_hand_are_no_error(slow):
    odd = {"postgresql": "-infinity", "mysql": "1000-01-01", "sqlite": "1"}[connection.vendor]
    low = LowInstant()
    for _ in range(7):
        finished(100)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {KEPT} SET retry_at = '{odd}'")
    finished(100)
    assert [archive.archive(table(Kept), low) for _ in range(4)] == [3, 3, 2, 0]
    assert ArchivedKept.objects.count() == 8


def test_all_finished_jobs_are_looked_at_again_within_a_minute_and_what_moves_within_ten_seconds(
    monkeypatch, slow
):
    monkeypatch.setattr(low_instants, "LONGEST", 10.0)
    lows = LowInstants()
    for _ in range(2):
        assert archive.archive(table(Kept), lows.finished) == 0
        assert promotion.next_moves(table(Kept), lows) == (None, None)
    now = time.monotonic()
    floors = []
    for seconds in (9, 11, 59, 61):
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: now + seconds)
        floors.append([bool(low.above("retry_at")[1]) for low in (lows.delayed, lows.finished)])
    assert floors == [[True, True], [False, True], [False, True], [False, False]]
