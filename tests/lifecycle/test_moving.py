"""Jobs that a person moves to another queue."""

import itertools
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime

import pytest
from django.core.exceptions import ValidationError
from django.db import connection, transaction

from django_dbqueue.lifecycle import moving
from django_dbqueue.states import Status
from tests.kit.bounds import limits
from tests.kit.jobs import buried, claimed, done, fresh, lifecycle_of, overwrite, start_all, table
from tests.queueapp.models import Note, Shared, Uuid

pytestmark = pytest.mark.usefixtures("db_rows")


def counts(moved):
    return moved.changed, moved.skipped, moved.twins, moved.no_room


def queues():
    return list(Note.objects.order_by("pk").values_list("queue", flat=True))


def test_what_nobody_has_moves_and_stays_what_it_is():
    held, ended = claimed(), done()
    jobs = [Note.objects.create(), Note.objects.enqueue(delay=60)[0], buried()]
    before = [lifecycle_of(job) for job in jobs]
    moved = Note.objects.all().move("other")
    assert counts(moved) == (3, 2, 0, 0)
    assert str(moved) == "3 changed, 2 skipped: their state had moved on"
    assert [lifecycle_of(job) for job in jobs] == before
    assert {fresh(job).queue for job in jobs} == {"other"}
    assert {fresh(job).queue for job in (held, ended)} == {"default"}
    held.complete()


def test_what_is_there_already_is_not_counted():
    Note.objects.create(queue="other")
    assert counts(Note.objects.all().move("other")) == (0, 0, 0, 0)


def test_what_is_there_already_is_not_counted_of_a_slice_either():
    Note.objects.create()
    with limits("queueapp.note:other", max_length=2):
        for key in (None, "a"):
            Note.objects.enqueue(queue="other", dedup_key=key)
        assert counts(Note.objects.order_by("-pk")[:2].move("other")) == (0, 0, 0, 0)
        assert counts(Note.objects.order_by("pk")[:2].move("other")) == (0, 1, 0, 1)


def test_a_job_that_is_claimed_between_the_look_and_the_write_stays_with_its_worker():
    job = Note.objects.create()
    seen = [(job.pk, job.status, job.owner)]
    [held] = Note.objects.claim()
    assert counts(moving.move(table(), seen, "other")) == (0, 1, 0, 0)
    assert fresh(job).queue == "default"
    held.complete()


@pytest.mark.parametrize("name", ["", " x", "x" * 300, None])
def test_what_is_no_name_is_refused(name):
    Note.objects.create()
    with pytest.raises(ValidationError, match="queue"):
        Note.objects.all().move(name)
    assert queues() == ["default"]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "atomic"])
def test_a_twin_in_the_other_queue_is_skipped_and_counted(inside):
    for key in ("a", "b"):
        Note.objects.enqueue(dedup_key=key)
    twin = Note.objects.enqueue(dedup_key="a", queue="other")[0]
    Note.objects.create()
    if inside:
        with transaction.atomic():
            moved = Note.objects.filter(queue="default").move("other")
    else:
        moved = Note.objects.filter(queue="default").move("other")
    assert counts(moved) == (2, 1, 1, 0)
    assert str(moved).endswith("1 skipped: a job with the same dedup key is there already")
    assert queues() == ["default", "other", "other", "other"]
    assert fresh(twin).dedup_key == "a"


def test_of_two_that_would_be_twins_there_the_first_one_moves():
    first = Note.objects.enqueue(dedup_key="a", queue="q1")[0]
    second = Note.objects.enqueue(dedup_key="a", queue="q2")[0]
    assert counts(Note.objects.all().move("other")) == (1, 1, 1, 0)
    assert (fresh(first).queue, fresh(second).queue) == ("other", "q2")


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "atomic"])
def test_a_twin_that_comes_in_meanwhile_keeps_nobody_else(inside, monkeypatch):
    """The first look finds none, and the unique index judges."""
    look, looks = moving._Moving._taken, itertools.count()
    later = lambda *args: look(*args) if next(looks) else set()  # noqa: E731
    monkeypatch.setattr(moving._Moving, "_taken", later)
    for key in ("a", "b", "c"):
        Note.objects.enqueue(dedup_key=key)
    Note.objects.enqueue(dedup_key="b", queue="other")
    Note.objects.create()
    jobs = Note.objects.filter(queue="default")
    if inside:
        with transaction.atomic():
            moved = jobs.move("other")
            assert Note.objects.count() == 5
    else:
        moved = jobs.move("other")
    assert counts(moved) == (3, 1, 1, 0)


def test_twins_are_skipped_where_keys_are_uuids():
    for key in ("a", "b"):
        Uuid.objects.enqueue(dedup_key=key)
    Uuid.objects.enqueue(dedup_key="a", queue="other")
    moved = Uuid.objects.filter(queue="default").move("other")
    assert counts(moved) == (1, 1, 1, 0)


@contextmanager
def one_of_a_tenant_in_a_queue():
    with connection.cursor() as cursor:
        cursor.execute("CREATE UNIQUE INDEX own_of_shared ON queueapp_shared (queue, tenant)")
        try:
            yield
        finally:
            table = " ON queueapp_shared" if connection.vendor == "mysql" else ""
            cursor.execute(f"DROP INDEX own_of_shared{table}")


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "atomic"])
@pytest.mark.parametrize("key", [None, "k"], ids=["plain", "dedup"])
def test_a_constraint_of_the_projects_own_keeps_nobody_else(inside, key):
    with one_of_a_tenant_in_a_queue():
        jobs = [Shared.objects.enqueue(tenant=name)[0] for name in "ab"]
        Shared.objects.enqueue(tenant="c", dedup_key=key)
        Shared.objects.create(tenant="b", queue="other")
        with transaction.atomic() if inside else nullcontext():
            moved = Shared.objects.filter(queue="default").move("other")
        assert (*counts(moved), moved.barred) == (2, 1, 0, 0, 1)
        assert str(moved) == "2 changed; 1 skipped: a constraint of the table forbids it"
        assert fresh(jobs[1]).queue == "default"


def test_a_full_queue_takes_as_many_as_it_has_room_for():
    for _ in range(5):
        Note.objects.create()
    parked = buried()
    Note.objects.enqueue(delay=60)
    with limits("queueapp.note:other", max_length=4):
        Note.objects.create(queue="other")
        moved = Note.objects.filter(queue="default").move("other")
        assert counts(moved) == (4, 3, 0, 3)
        assert str(moved).endswith("; 3 skipped: the queue is full")
        # It takes no room until it is put back to work.
        assert fresh(parked).queue == "other"
        assert Note.objects.filter(queue="other").exclude(status=Status.BURIED).count() == 4
        assert counts(Note.objects.filter(queue="default").move("other")) == (0, 3, 0, 3)
        Note.objects.filter(queue="other").cancel()
        assert counts(Note.objects.filter(queue="default").move("other")) == (3, 0, 0, 0)


def test_room_that_was_handed_out_and_not_used_is_taken_too():
    with limits("queueapp.note:other", max_length=1000):
        for _ in range(20):
            Note.objects.create(queue="other")
        Note.objects.enqueue_many([{"text": ""}] * 1_100)
        moved = Note.objects.filter(queue="default").move("other")
        assert counts(moved) == (980, 120, 0, 120)


def test_what_was_in_a_bounded_queue_makes_room_there():
    with limits("queueapp.note:default", max_length=2):
        for _ in range(2):
            Note.objects.create()
        Note.objects.all().move("other")
        for _ in range(2):
            Note.objects.create()
    assert sorted(queues()) == ["default", "default", "other", "other"]


def test_room_that_a_move_took_is_given_back_with_its_transaction():
    with limits("queueapp.note:other", max_length=2):
        for _ in range(2):
            Note.objects.create()
        with transaction.atomic():
            assert Note.objects.all().move("other").changed == 2
            transaction.set_rollback(True)
        assert queues() == ["default"] * 2
        assert Note.objects.all().move("other").changed == 2


def test_a_job_goes_into_the_lane_of_its_key():
    with limits(rate="5/s", rate_key="{text}"):
        jobs = [Note.objects.create(text=text) for text in ("a", "b", "a")]
        assert counts(Note.objects.all().move("other")) == (3, 0, 0, 0)
        assert [fresh(job).queue for job in jobs] == ["other@a", "other@b", "other@a"]
        assert counts(Note.objects.all().move("other")) == (0, 0, 0, 0)
        Note.objects.all().move("default")
        assert [fresh(job).queue for job in jobs] == ["default@a", "default@b", "default@a"]


def test_jobs_that_wait_for_their_key_go_on_in_the_order_of_the_other_queue():
    jobs = [Shared.objects.create(tenant="a") for _ in range(4)]
    first, second = Shared.objects.claim(limit=10)
    assert Shared.objects.claim(limit=10) == []
    assert Shared.objects.all().move("other").changed == 2
    for job in (first, second):
        job.complete()
    found = Shared.objects.claim(limit=10, queue="other")
    assert [job.pk for job in found] == [job.pk for job in jobs[2:]]


def test_the_statement_takes_no_more_than_a_chunk(monkeypatch):
    """Each statement names at most 500 keys, and all are moved."""
    Note.objects.enqueue_many([{"text": ""}] * 1_100)
    said = []

    def note(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and "SET queue" in sql:
            said.append(len(params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        assert Note.objects.all().move("other").changed == 1_100
    assert [number // 100 for number in said] == [5, 5, 1]


def test_claims_by_others_meanwhile_never_see_a_job_twice():
    Note.objects.enqueue_many([{"text": ""}] * 200)

    def take(queue):
        found = []
        while jobs := Note.objects.claim(limit=20, queue=queue):
            found += [job.pk for job in jobs]
        return found

    def move():
        return Note.objects.all().move("other").changed

    taken, moved = start_all(lambda: take("default"), move)
    assert len(taken) + moved == 200
    taken += take("other")
    assert len(set(taken)) == len(taken) == 200


def test_another_time_is_given_to_what_waits_and_nobody_has():
    held, ended, parked = claimed(), done(), buried()
    ready, delayed = Note.objects.create(), Note.objects.enqueue(delay=60)[0]
    overwrite(delayed, attempts=2)
    moment = datetime(2031, 5, 1, tzinfo=UTC)
    answer = Note.objects.all().reschedule(moment)
    assert (answer.changed, answer.skipped) == (2, 3)
    for job in (ready, delayed):
        assert (fresh(job).status, fresh(job).retry_at) == (Status.DELAYED, moment)
    assert fresh(delayed).attempts == 2
    assert [fresh(job).state for job in (held, ended, parked)] == ["claimed", "done", "buried"]
    held.complete()
    Note.objects.filter(pk=ready.pk).reschedule(0)
    assert Note.objects.filter(retry_at__lt=moment).get().pk == ready.pk


def test_another_priority_is_given_to_what_may_run_and_nobody_has():
    held, ended, parked = claimed(), done(), buried()
    ready, delayed = Note.objects.create(), Note.objects.enqueue(delay=60)[0]
    before = [lifecycle_of(job) for job in (ready, delayed, parked)]
    answer = Note.objects.all().prioritize(5)
    assert (answer.changed, answer.skipped) == (3, 2)
    assert [lifecycle_of(job) for job in (ready, delayed, parked)] == before
    assert {fresh(job).priority for job in (ready, delayed, parked)} == {5}
    assert {fresh(job).priority for job in (held, ended)} == {1024}
    held.complete()


def test_what_is_put_back_to_work_may_have_another_time_to_run_and_a_time_to_begin():
    jobs = [buried(), buried()]
    Note.objects.filter(pk=jobs[0].pk).kick(time_to_run=900)
    Note.objects.filter(pk=jobs[1].pk).kick(due=60)
    now, later = map(fresh, jobs)
    assert (now.status, now.time_to_run, now.attempts) == (Status.READY, 900, 0)
    assert (later.status, later.time_to_run, later.attempts) == (Status.DELAYED, None, 0)
    assert later.failed_at is later.failure is None
    assert later.retry_at is not None


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("prioritize", {"priority": -1}),
        ("prioritize", {"priority": 2**32}),
        ("reschedule", {"due": -5}),
        ("reschedule", {"due": "soon"}),
        ("kick", {"time_to_run": 0}),
        ("kick", {"due": True}),
    ],
)
def test_values_beyond_their_limits_are_refused_before_anything_is_written(verb, given):
    job = buried()
    with pytest.raises(ValidationError):
        getattr(Note.objects.all(), verb)(**given)
    assert fresh(job).state == "buried"


@pytest.mark.parametrize("model", [Note, Shared])
def test_a_job_that_is_moved_between_a_claims_look_and_its_write_is_not_claimed(model):
    """By those statements that look first, and then write."""
    jobs = [model.objects.create() for _ in range(3)]
    moved = []

    def intercept(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and "owner" in sql and not moved:
            moved.append(jobs[1].pk)
            move_aside(model, jobs[1].pk)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(intercept):
        taken = [job.pk for job in model.objects.claim(limit=3)]
    if connection.vendor == "mysql" or model is Shared:
        assert jobs[1].pk not in taken
        assert fresh(jobs[1]).state == "ready"
    assert {jobs[0].pk, jobs[2].pk} <= {*taken}


def move_aside(model, key):
    """In the claim's own statement and transaction: SQLite lets nobody else write meanwhile."""
    with connection.cursor() as cursor:
        name = connection.ops.quote_name(model._meta.db_table)
        cursor.execute(f"UPDATE {name} SET queue = 'other' WHERE id = %s", [key])
