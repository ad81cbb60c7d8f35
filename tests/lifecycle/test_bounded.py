"""max_length: what becomes of jobs that find their queue full, by each way to enqueue."""

import threading
from collections import Counter
from contextlib import contextmanager
from functools import partial

import pytest
from django.core.exceptions import ValidationError
from django.db import connection, connections, transaction

from django_dbqueue import signals
from django_dbqueue.exceptions import QueueFull
from django_dbqueue.models import QueueRoom
from django_dbqueue.states import Status
from tests.kit.bounds import limits
from tests.kit.jobs import claim_one, fresh
from tests.queueapp.models import ArchivedChore, Chore, Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def two():
    """Queues that hold two jobs each."""
    with limits(max_length=2):
        yield


def length(queue="default", model=Note):
    ended = (Status.DONE, Status.BURIED)
    return model.objects.filter(queue=queue).exclude(status__in=ended).count()


def by_save(count, **columns):
    for _ in range(count):
        Note(**columns).save()


def by_create(count, **columns):
    for _ in range(count):
        Note.objects.create(**columns)


def by_enqueue(count, **columns):
    for number in range(count):
        Note.objects.enqueue(dedup_key=f"{Note.objects.count()} {number}", **columns)


def by_delay(count, **columns):
    for _ in range(count):
        Note.objects.enqueue(delay=60, **columns)


def by_bulk_create(count, **columns):
    Note.objects.bulk_create([Note(**columns) for _ in range(count)])


def by_enqueue_many(count, **columns):
    Note.objects.enqueue_many([{"text": ""} for _ in range(count)], **columns)


ways = pytest.mark.parametrize(
    "way",
    [by_save, by_create, by_enqueue, by_delay, by_bulk_create, by_enqueue_many],
    ids=lambda way: way.__name__,
)
inside = pytest.mark.parametrize(
    "scope", [partial(transaction.atomic), None], ids=["atomic", "alone"]
)


@contextmanager
def scoped(scope):
    if scope is None:
        yield
        return
    with scope():
        yield


@ways
@inside
def test_a_full_queue_takes_no_more_and_nothing_is_written(two, way, scope):
    with scoped(scope):
        way(1)
        way(1)
        with pytest.raises(QueueFull, match="has no room for a job more"):
            way(1)
        way(1, queue="other")
    assert (length(), length("other")) == (2, 1)


@ways
def test_a_job_that_has_ended_makes_room(two, way):
    way(2)
    Note.objects.delayed().kick()
    claim_one().complete()
    way(1)
    with pytest.raises(QueueFull):
        way(1)
    assert length() == 2


@ways
def test_what_is_rolled_back_takes_no_room(two, way):
    with transaction.atomic():
        way(2)
        transaction.set_rollback(True)
    way(2)
    assert length() == 2


def test_many_at_once_are_all_refused_or_none(two):
    Note.objects.create()
    for way in (by_bulk_create, by_enqueue_many):
        with pytest.raises(QueueFull, match="no room for 2 jobs more"):
            way(2)
    with pytest.raises(QueueFull, match="never has room for 3 jobs at once"):
        by_bulk_create(3)
    assert length() == 1


@pytest.mark.parametrize(
    "column", [{"queue": ["a"]}, {"queue": " "}, {"priority": "high"}], ids=str
)
def test_what_is_no_queue_or_priority_is_named(two, column):
    with pytest.raises(ValidationError, match=next(iter(column))):
        Note.objects.enqueue_many([{"text": "", **column}])
    assert length() == 0


def test_of_several_queues_none_is_written_where_one_is_full(two):
    by_create(2, queue="b")
    jobs = [Note(queue=queue) for queue in ("c", "b", "a")]
    for scope in (None, transaction.atomic):
        with scoped(scope), pytest.raises(QueueFull, match="queue b of"):
            Note.objects.bulk_create(jobs)
    assert Counter(Note.objects.values_list("queue", flat=True)) == {"b": 2}


def test_a_claimed_job_and_one_to_be_retried_have_their_places(two):
    by_create(2)
    job = claim_one()
    with pytest.raises(QueueFull):
        by_create(1)
    job.fail("not yet")
    assert fresh(job).status == Status.DELAYED
    with pytest.raises(QueueFull):
        by_create(1)


def test_a_buried_job_has_none_and_a_kick_may_exceed_the_limit(two):
    by_create(2)
    Note.objects.all().bury()
    by_create(2)
    assert Note.objects.buried().kick().changed == 2
    assert length() == 4
    with pytest.raises(QueueFull):
        by_create(1)


def test_a_twin_needs_no_room(two):
    job, _ = Note.objects.enqueue(dedup_key="a")
    by_create(1)
    assert Note.objects.enqueue(dedup_key="a") == (job, False)
    with pytest.raises(QueueFull):
        Note.objects.enqueue(dedup_key="b")


def test_of_several_stripes_all_of_the_room_is_used():
    with limits(max_length=300):
        by_create(20)
        by_enqueue_many(200)
        by_create(80)
        assert QueueRoom.objects.count() > 2
        with pytest.raises(QueueFull):
            by_create(1)
    assert length() == 300


def test_jobs_that_nobody_counted_are_noticed_when_the_room_was_handed_out_long_ago():
    with limits(max_length=100):
        by_create(3)
    by_create(200)  # by a process that knows of no limit
    with limits(max_length=100):
        QueueRoom.objects.update(counted_at="2020-01-01T00:00:00Z")
        with pytest.raises(QueueFull):
            by_create(1)


def test_a_limit_that_was_lowered_counts_at_once():
    with limits(max_length=40):
        by_create(10)
    with limits(max_length=10), pytest.raises(QueueFull):
        by_create(1)
    with limits(max_length=11):
        by_create(1)


def test_one_who_waits_gets_the_place_of_a_job_that_ends():
    with limits(max_length=1, when_full="wait", full_wait=60):
        by_create(1)
        thread = threading.Thread(target=_in_thread(by_create, 1))
        thread.start()
        claim_one().complete()
        thread.join(60)
    assert (length(), Note.objects.done().count()) == (1, 1)


def test_one_who_waits_does_so_up_to_a_time():
    with limits(max_length=1, when_full="wait", full_wait=0.1):
        by_create(1)
        with pytest.raises(QueueFull, match=r"for 0\.1 s"):
            by_create(1)


@pytest.mark.skipif(connection.vendor != "mysql", reason="a stale count fails elsewhere")
def test_a_transaction_that_cannot_see_commits_is_refused(two, monkeypatch):
    by_create(1)  # the level is known once there is a connection
    monkeypatch.setattr(connections["default"], "isolation_level", "repeatable read")
    with transaction.atomic():
        for way in (by_bulk_create, by_create):
            with pytest.raises(transaction.TransactionManagementError, match="READ COMMITTED"):
                way(1)
        transaction.set_rollback(True)
    assert length() == 1


def test_within_a_transaction_nobody_waits():
    with limits(max_length=1, when_full="wait", full_wait=3600), transaction.atomic():
        by_create(1)
        with pytest.raises(QueueFull):
            by_create(1)


@pytest.fixture
def dropped():
    heard = []

    def hear(sender, job, error, **_):
        heard.append((sender, job.text, type(error)))

    signals.job_dropped.connect(hear)
    yield heard
    signals.job_dropped.disconnect(hear)


@ways
@inside
def test_the_oldest_job_makes_room(way, scope, dropped):
    with limits(max_length=2, when_full="drop_oldest"):
        for text in ("first", "second"):
            Note.objects.create(text=text)
        with scoped(scope):
            way(1)
    first, second, new = Note.objects.order_by("pk")
    assert (first.status, first.errors[0]["exception"]) == (Status.BURIED, "QueueFull")
    assert "system busy" in first.last_error
    assert first.attempts == 0
    assert [second.status, new.status] == [Status.READY, new.status]
    assert dropped == [(Note, "first", QueueFull)]
    assert length() == 2


def test_the_least_urgent_jobs_are_dropped_first_then_the_oldest(dropped):
    with limits(max_length=4, when_full="drop_oldest"):
        for text, priority in [("a", 9), ("b", 5), ("c", 9), ("d", 1)]:
            Note.objects.create(text=text, priority=priority)
        by_bulk_create(2, priority=1)
        assert [text for _, text, _ in dropped] == ["a", "c"]
        by_enqueue_many(2, priority=1)
    assert [text for _, text, _ in dropped] == ["a", "c", "b", "d"]


def test_room_that_was_left_for_a_part_of_many_jobs_is_used_once(dropped):
    with limits(max_length=3, when_full="drop_oldest"):
        by_create(1)
        by_bulk_create(3)
        assert (length(), len(dropped)) == (3, 1)
        by_create(2)
    assert (length(), len(dropped)) == (3, 3)


def test_a_more_urgent_job_is_not_dropped_for_a_less_urgent_one(dropped):
    with limits(max_length=1, when_full="drop_oldest"):
        by_create(1, priority=5)
        with pytest.raises(QueueFull):
            by_create(1, priority=6)
        by_create(1, priority=5)
    assert len(dropped) == 1


def test_a_claimed_job_is_not_dropped_but_a_delayed_one(dropped):
    with limits(max_length=2, when_full="drop_oldest"):
        by_create(1, text="running")
        job = claim_one()
        Note.objects.enqueue(delay=60, text="delayed")
        by_create(1, text="new")
        assert [text for _, text, _ in dropped] == ["delayed"]
        job.complete()
        by_create(1)
        claim_one()
        claim_one()
        with pytest.raises(QueueFull):
            by_create(1)
    assert len(dropped) == 1


def test_where_too_few_can_be_dropped_none_is_and_nothing_is_enqueued(dropped):
    with limits(max_length=3, when_full="drop_oldest"):
        by_create(3)
        claim_one()
        claim_one()
        for ways in (by_bulk_create, by_enqueue_many):
            with pytest.raises(QueueFull):
                ways(2)
    assert (Note.objects.ready().count(), Note.objects.count(), dropped) == (1, 3, [])


def test_an_expired_job_makes_room_without_a_word(dropped):
    with limits(max_length=1, when_full="drop_oldest"):
        old = Note.objects.create(expires_at="2020-01-01T00:00:00Z")
        by_create(1)
    assert (fresh(old).state, fresh(old).errors, dropped) == ("expired", [], [])


def test_each_lane_of_a_rate_is_bounded_by_itself():
    with limits("queueapp.note", rate="1/d", rate_key="{text}", max_length=2):
        Note.objects.enqueue_many([{"text": text} for text in ("a", "a", "b", "b")])
        with pytest.raises(QueueFull):
            Note.objects.enqueue_many([{"text": "a"}, {"text": "c"}])
    assert (length("default@a"), length("default@b"), Note.objects.count()) == (2, 2, 4)


def test_where_there_is_an_archive_the_dropped_job_is_there(dropped):
    with limits("queueapp.chore", max_length=1, when_full="drop_oldest"):
        old = Chore.objects.create()
        Chore.objects.create()
    [row] = ArchivedChore.objects.all()
    assert (row.pk, row.status, row.errors[0]["exception"]) == (old.pk, Status.BURIED, "QueueFull")
    assert Chore.objects.count() == 1


def test_what_is_not_enqueued_in_the_end_has_dropped_nothing(dropped):
    with limits(max_length=1, when_full="drop_oldest"):
        by_create(1)
        with transaction.atomic():
            by_create(1)
            transaction.set_rollback(True)
    assert (Note.objects.ready().count(), Note.objects.count(), dropped) == (1, 1, [])


def _in_thread(work, *args):
    def run():
        try:
            work(*args)
        finally:
            connection.close()

    return run
