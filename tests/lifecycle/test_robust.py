"""One bad row, one locked row, one missing table: the others do not suffer."""

import logging
import threading
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection, connections, transaction
from django.db.models import QuerySet
from django.db.utils import InterfaceError, OperationalError
from django.utils import timezone

from django_dbqueue.dialects.types import RowsLocked
from django_dbqueue.lifecycle import archive, held, holder, low_instants, promotion
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.execute import rows
from django_dbqueue.lifecycle.ready_queues import has_ready, ready_queues
from django_dbqueue.metrics.counts import oldest_ready
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.worker import reaper as reaper_module
from tests.kit.jobs import (
    claimed,
    done,
    fresh,
    overwrite,
    reap_overdue,
    reap_owner,
    reaper,
    start,
    table,
)
from tests.queueapp.models import ArchivedKept, Kept, Note, Pruned, Shared
from tests.sweeps.codes import CODES

pytestmark = pytest.mark.usefixtures("db_rows")


def ago(seconds=1.0):
    return timezone.now() - timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def _short_waits(db_rows):
    """A worker's connection gives up a lock soon."""
    with connection.cursor() as cursor:
        cursor.execute(table().dialect.own_session())
    yield
    connection.close()


@contextmanager
def locked(job):
    """A user's transaction has written the row and goes on for a while."""
    held, over = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            QuerySet(type(job)).filter(pk=job.pk).update(priority=7)
            held.set()
            over.wait(60)

    thread = start(hold)
    assert held.wait(60)
    try:
        yield
    finally:
        over.set()
        thread.result()


def rows_can_be_locked():
    return connection.features.has_select_for_update_skip_locked


rows_are_locked = pytest.mark.skipif(
    "connection.vendor == 'sqlite'", reason="there the whole database is locked"
)


@contextmanager
def within(seconds):
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


# Locks


def test_a_locked_due_job_keeps_nobody_waiting():
    jobs = [Note.objects.enqueue(retry_at=ago())[0] for _ in range(5)]
    with locked(jobs[2]), within(10):
        assert promotion.promote(table()) == (4 if rows_can_be_locked() else 0)
    assert promotion.promote(table()) == (1 if rows_can_be_locked() else 5)
    assert {fresh(job).status for job in jobs} == {Status.READY}


def test_a_locked_overdue_job_keeps_nobody_waiting():
    jobs = [claimed() for _ in range(5)]
    for job in jobs:
        overwrite(job, retry_at=ago())
    with locked(jobs[2]), within(10):
        assert reap_overdue(table()) == (4 if rows_can_be_locked() else 0)
    assert reap_overdue(table()) == (1 if rows_can_be_locked() else 5)


def test_a_locked_finished_job_is_archived_later():
    jobs = [done(Kept) for _ in range(5)]
    for job in jobs:
        overwrite(job, retry_at=ago())
    with locked(jobs[2]), within(10):
        assert archive.archive(table(Kept)) == (4 if rows_can_be_locked() else 0)
    assert archive.archive(table(Kept)) == (1 if rows_can_be_locked() else 5)
    assert ArchivedKept.objects.count() == 5


def test_a_locked_finished_job_is_pruned_later():
    jobs = [done(Pruned) for _ in range(5)]
    for job in jobs:
        overwrite(job, retry_at=ago())
    with locked(jobs[2]), within(10):
        assert archive.prune(table(Pruned)) == (4 if rows_can_be_locked() else 0)
    assert archive.prune(table(Pruned)) == (1 if rows_can_be_locked() else 5)


def test_a_dead_worker_stays_known_until_its_last_job_was_given_back():
    worker = Worker.objects.create(pid=1, uuid="d" * 32, host="gone", beat_at=ago(99))
    Note.objects.bulk_create(Note() for _ in range(3))
    jobs = claim(table(), "default", 3, f"{worker.uuid}.1")
    turns = reaper()
    with locked(jobs[1]):
        if rows_can_be_locked():
            with within(10):
                what, _ = turns.turn(judge=lambda: True)
            assert what.reaped == 2
            assert Worker.objects.filter(pk=worker.pk, stopped_at=None).exists()
        with pytest.raises(RowsLocked), within(10):
            reap_owner(table(), f"{worker.uuid}.")
    what, _ = turns.turn(judge=lambda: True)
    assert what.reaped == (1 if rows_can_be_locked() else 3)
    assert "taken for dead" in fresh(worker).stop_reason
    assert {fresh(job).status for job in jobs} == {Status.READY}


def shared(count, tenant="a", **columns):
    return [Shared.objects.create(tenant=tenant, **columns) for _ in range(count)]


def keys(jobs):
    return [job.pk for job in jobs]


@rows_are_locked
@pytest.mark.parametrize("limit", [1, 10])
def test_a_claim_of_jobs_with_keys_passes_over_locked_ones_and_takes_others_of_their_keys(limit):
    jobs = [*shared(3), *shared(1, "b"), *shared(1, "")]
    with locked(jobs[0]):
        assert keys(Shared.objects.claim(limit=limit)) == keys(jobs[1:])[:limit]
        assert len(Shared.objects.claimed()) == (1 if limit == 1 else 4)


@rows_are_locked
def test_a_locked_job_whose_key_is_busy_keeps_no_claim_waiting_and_is_parked_later():
    shared(2)
    assert len(Shared.objects.claim(limit=10)) == 2
    jobs = [*shared(2), *shared(1, "b")]
    with locked(jobs[0]):
        assert keys(Shared.objects.claim(limit=10)) == [jobs[2].pk]
        assert [fresh(job).waits_for_key for job in jobs[:2]] == [False, True]
    assert Shared.objects.claim(limit=10) == []
    assert [fresh(job).waits_for_key for job in jobs[:2]] == [True, True]


@rows_are_locked
def test_another_job_of_a_key_is_woken_instead_of_a_locked_one():
    shared(4)
    first, second = Shared.objects.claim(limit=2)
    assert Shared.objects.claim() == []
    third, fourth = (job for job in Shared.objects.order_by("pk") if job.waits_for_key)
    with locked(third):
        first.complete()
        assert keys(Shared.objects.claim(limit=10)) == [fourth.pk]
    second.complete()
    assert keys(Shared.objects.claim(limit=10)) == [third.pk]


@rows_are_locked
@pytest.mark.parametrize("order", ["block", "skip", "fail"])
def test_no_claim_waits_for_the_locked_head_of_a_key_that_comes_in_order(order):
    jobs = shared(3, key_order=order)
    others = shared(1, "b")
    with locked(jobs[0]):
        assert keys(Shared.objects.claim(limit=10)) == keys(others)
        assert Shared.objects.claim(limit=10) == []
    assert keys(Shared.objects.claim(limit=10)) == [jobs[0].pk]


@rows_are_locked
def test_a_locked_follower_of_a_buried_head_is_buried_later():
    jobs = shared(3, key_order="fail")
    [head] = Shared.objects.claim(limit=1)
    head.bury("no")
    with locked(jobs[1]):
        assert Shared.objects.claim(limit=10) == []
        assert fresh(jobs[2]).status == Status.BURIED
    assert Shared.objects.claim(limit=10) == []
    assert fresh(jobs[1]).status == Status.BURIED


def test_in_a_transaction_of_somebody_no_statement_is_run_again():
    """The first code of each database asks for another try."""
    job, sent = claimed(), []

    def refuse(execute, sql, *rest):
        sent.append(sql)
        with connection.wrap_database_errors:
            raise CODES[connection.vendor][0].error()

    with (
        pytest.raises(OperationalError),
        transaction.atomic(),
        connection.execute_wrapper(refuse),
    ):
        holder.complete(table(), job.claim_owner, [job.claim_key])
    assert len(sent) == 1


def test_what_a_dead_worker_held_is_charged_to_nobody_even_if_its_time_is_over():
    worker = Worker.objects.create(pid=1, uuid="d" * 32, host="gone", beat_at=ago(99))
    Note.objects.create()
    [job] = claim(table(), "default", 1, f"{worker.uuid}.1")
    overwrite(job, retry_at=ago())
    reaper().turn(judge=lambda: True)
    assert (fresh(job).status, fresh(job).attempts, fresh(job).losses) == (Status.READY, 0, 1)


# Tables


def failing(monkeypatch, model, error):
    """Every look at one table raises."""
    look = rows

    def look_or_fail(of, sql, params):
        if table(model).name in sql:
            raise error
        return look(of, sql, params)

    for module in (promotion, held):
        monkeypatch.setattr(module, "rows", look_or_fail)


def test_a_table_that_is_missing_stops_no_other(monkeypatch, caplog):
    with connection.schema_editor() as editor:
        editor.delete_model(Pruned)
    try:
        job, _ = Note.objects.enqueue(retry_at=ago())
        turns = reaper(Pruned, Note)
        for _ in range(3):
            turns.turn(judge=lambda: True)
        assert fresh(job).status == Status.READY
    finally:
        with connection.schema_editor() as editor:
            editor.create_model(Pruned)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "queueapp.pruned" in warnings[0]


def test_a_lost_connection_is_the_callers_to_mend(monkeypatch):
    failing(monkeypatch, Note, InterfaceError("gone"))
    with pytest.raises(InterfaceError):
        reaper().turn(judge=lambda: False)


def test_after_a_full_chunk_the_next_turn_comes_at_once(monkeypatch):
    monkeypatch.setattr(low_instants, "CHUNK", 4)
    monkeypatch.setattr(held, "CHUNK", 4)
    for _ in range(6):
        overwrite(done(Pruned), retry_at=ago())
    turns = reaper(Pruned)
    results = [turns.turn(judge=lambda: False) for _ in range(2)]
    last = reaper_module.PASS_SECONDS_MAX
    assert [(what.pruned, wait) for what, wait in results] == [(4, 0), (2, last)]


# Rows


@pytest.fixture
def _unreadable(monkeypatch):
    """Texts that begin with '!' cannot be read, as with an encryption key that is gone."""
    field = Note._meta.get_field("text")

    def from_db_value(value, expression, connection):
        if value.startswith("!"):
            raise LookupError(f"no key for {value}")
        return value

    monkeypatch.setattr(field, "from_db_value", from_db_value, raising=False)
    vars(connections["default"]).pop("dbqueue_tables", None)
    yield
    vars(connections["default"]).pop("dbqueue_tables", None)


@pytest.mark.usefixtures("_unreadable")
def test_a_row_that_cannot_be_read_is_buried_and_the_others_are_claimed(caplog):
    good = Note.objects.create(text="good")
    Note.objects.bulk_create([Note(text="!bad", dedup_key="twin"), Note(text="fine")])
    texts = [job.text for job in claim(table(), "default", 10, "w.1")]
    assert texts == ["good", "fine"]
    bad = Note.objects.defer("text").get(status=Status.BURIED)
    assert (bad.owner, bad.retry_at, bad.dedup_key) == (None, None, None)
    assert bad.finished_at is not None
    assert "no key for !bad" in bad.last_error
    assert bad.errors[0]["owner"] == "w.1"
    assert "cannot be read" in caplog.text
    assert QuerySet(Note).filter(pk=good.pk, status=Status.CLAIMED).exists()
    assert claim(table(), "default", 10, "w.2") == []


def test_a_row_that_cannot_be_read_is_left_to_another_who_has_it_by_now(monkeypatch):
    def lose_and_fail(value, expression, connection):
        QuerySet(Note).update(owner="another.1")
        raise LookupError("no key")

    monkeypatch.setattr(Note._meta.get_field("text"), "from_db_value", lose_and_fail, raising=False)
    vars(connections["default"]).pop("dbqueue_tables", None)
    Note.objects.create()
    assert claim(table(), "default", 1, "w.1") == []
    [row] = QuerySet(Note).values("status", "owner")
    assert row == {"status": Status.CLAIMED, "owner": "another.1"}
    vars(connections["default"]).pop("dbqueue_tables", None)


def test_a_claim_whose_reading_fails_is_read_again_and_nothing_else_is_claimed():
    if connection.vendor != "mysql":
        return  # one statement claims and reads
    Note.objects.bulk_create(Note() for _ in range(10))
    failures = []

    def fail_once(execute, sql, params, many, context):
        if sql.startswith("SELECT") and "owner = %s" in sql and not failures:
            failures.append(sql)
            raise OperationalError(1317, "Query execution was interrupted")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(fail_once):
        jobs = claim(table(), "default", 3, "w.1")
    assert len(failures) == 1
    assert len(jobs) == 3
    assert QuerySet(Note).filter(status=Status.CLAIMED).count() == 3


# Lists


def test_queues_beyond_the_first_are_found_from_where_the_last_look_ended():
    for queue in ["a", "b", "c", "d", "e"]:
        Note.objects.create(queue=queue)
    first = ready_queues(table(), most=2)
    second = ready_queues(table(), most=2, after=first[-1])
    third = ready_queues(table(), most=2, after=second[-1])
    assert [first, second, third] == [["a", "b"], ["c", "d"], ["e", "a"]]
    assert ready_queues(table(), after="c") == ["d", "e", "a", "b", "c"]
    assert ready_queues(table(), after="cc") == ["d", "e", "a", "b", "c"]
    assert ready_queues(table(), after="z") == ["a", "b", "c", "d", "e"]


def test_one_queue_can_be_asked_for():
    Note.objects.create(queue="a")
    Note.objects.enqueue(queue="later", delay=60)
    assert has_ready(table(), "a")
    assert [has_ready(table(), name) for name in ["later", "A", "none"]] == [False] * 3


def test_the_oldest_ready_job_need_not_be_the_first_in_line():
    ages = {1024: 10, 5: 100, 2000: 7000, 3000: 50}
    for priority, age in ages.items():
        overwrite(Note.objects.create(priority=priority), created_at=ago(age))
    overwrite(Note.objects.create(queue="other"), created_at=ago(99999))
    overwrite(claimed(priority=0), created_at=ago(99999))
    seconds, has_key = oldest_ready(table(), "default")
    assert (seconds, has_key) == (pytest.approx(7000, abs=30), False)
    assert oldest_ready(table(), "none") == (None, False)


def test_a_job_that_a_join_lists_twice_is_changed_once():
    a, b = Note.objects.create(), Note.objects.create()
    twice = Note.objects.filter(pk=a.pk).union(Note.objects.filter(pk__in=[a.pk, b.pk]), all=True)
    assert len(twice) == 3
    assert str(twice.bury()) == "2 changed"
