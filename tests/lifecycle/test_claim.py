"""ready -> claimed, the same on every database."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.exceptions import ValidationError
from django.db import ProgrammingError, connection, connections, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy

from django_dbqueue.dialects import dialect_of
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.models import Queue
from django_dbqueue.states import Status
from django_dbqueue.testing import virtual_clock
from tests.kit.jobs import claim_one, claimed, fresh, in_thread, start_all, table
from tests.kit.waiting import wait_until
from tests.queueapp.models import Kept, Note, Strict

pytestmark = pytest.mark.usefixtures("db_rows")


def texts(jobs):
    return [job.text for job in jobs]


def test_a_claim_says_who_has_the_job_since_when_and_until_when():
    created = Note.objects.create(text="first", time_to_run=90)
    job = claim_one()
    row = fresh(job)
    assert job.pk == created.pk
    assert (job.text, job.status, job.attempts) == ("first", Status.CLAIMED, 1)
    assert row.status == Status.CLAIMED
    assert row.attempts == 1
    assert row.owner == job.owner == job.claim_owner
    assert row.dequeued_time >= row.created_at
    assert (row.retry_at - row.dequeued_time).total_seconds() == pytest.approx(90, abs=0.1)


def test_the_policy_gives_the_time_to_run_where_the_job_has_none():
    row = fresh(claimed())
    assert (row.retry_at - row.dequeued_time).total_seconds() == pytest.approx(60, abs=0.1)


def test_an_allowance_is_added_to_the_time_to_run():
    Note.objects.create()
    [job] = claim(table(), "default", 1, "worker.1", allowance=30)
    row = fresh(job)
    assert row.owner == "worker.1"
    assert (row.retry_at - row.dequeued_time).total_seconds() == pytest.approx(90, abs=0.1)


def test_what_the_claim_set_is_read_from_the_database_when_it_is_asked_for():
    job = claimed()
    row = fresh(job)
    assert (job.dequeued_time, job.retry_at) == (row.dequeued_time, row.retry_at)
    assert (job.created_at, job.errors, job.expires_at) == (row.created_at, [], None)


def test_the_most_urgent_comes_first_then_the_oldest():
    for text, priority in [("c", 1024), ("d", 1024), ("a", 0), ("e", 2**32 - 1), ("b", 5)]:
        Note.objects.create(text=text, priority=priority)
    assert texts(Note.objects.claim(limit=3)) == ["a", "b", "c"]
    assert texts(Note.objects.claim(limit=3)) == ["d", "e"]
    assert Note.objects.claim() == []


def test_a_table_in_strict_order_is_claimed_in_order():
    Strict.objects.bulk_create(Strict(priority=9 - n) for n in range(10))
    found = [job.priority for _ in range(5) for job in Strict.objects.claim(limit=2)]
    assert found == sorted(found)


def test_a_limit_may_be_an_integer_of_another_class():
    Note.objects.bulk_create(Note() for _ in range(5))
    assert len(Note.objects.claim(limit=Status.DONE)) == Status.DONE


def test_a_claim_takes_no_more_than_its_limit():
    Note.objects.bulk_create(Note() for _ in range(30))
    assert len(Note.objects.claim(limit=7)) == 7
    assert Note.objects.ready().count() == 23
    assert len(Note.objects.claim(limit=100)) == 23


@pytest.mark.parametrize("limit", [0, -1, True, "7", 1.0])
def test_a_limit_that_is_no_number_of_jobs_is_refused(limit):
    with pytest.raises(ValueError, match="limit"):
        Note.objects.claim(limit=limit)


def test_only_ready_jobs_of_the_queue_are_claimed():
    claimed()
    Note.objects.create(queue="other")
    Note.objects.enqueue(delay=60)
    assert Note.objects.claim(limit=10) == []
    assert len(Note.objects.claim(limit=10, queue="other")) == 1


def in_queues(*queues, each=2):
    for queue in queues:
        Note.objects.bulk_create(Note(queue=queue, text=queue) for _ in range(each))


def test_several_queues_are_claimed_from_in_the_order_in_which_they_are_named():
    in_queues("a", "b", "c")
    assert texts(Note.objects.claim(limit=3, queue=["b", "a"])) == ["b", "b", "a"]
    assert texts(Note.objects.claim(limit=3, queue=("b", "a"))) == ["a"]
    assert Note.objects.claim(limit=3, queue=[]) == []


def test_all_queues_are_claimed_from_and_none_comes_first_for_ever():
    in_queues("a", "b", each=40)
    assert len({job.text for _ in range(40) for job in Note.objects.claim(queue=None)}) == 2
    Note.objects.pause("a")
    assert {*texts(Note.objects.claim(limit=100, queue=None))} == {"b"}
    Note.objects.resume("a")
    in_queues("c")
    assert {*texts(Note.objects.all().claim(limit=100, queue=None))} == {"a", "c"}


def test_jobs_of_every_queue_have_an_owner_whose_claim_can_be_ended():
    in_queues("a", "b")
    for job in Note.objects.claim(limit=4, queue=None):
        job.complete()
    assert Note.objects.done().count() == 4


@pytest.mark.parametrize("queue", [["a", ""], [None], [5], ["a "]])
def test_one_odd_name_among_several_is_refused(queue):
    in_queues("a")
    with pytest.raises(ValidationError, match="queue"):
        Note.objects.claim(queue=queue)
    assert Note.objects.ready().count() == 2


def test_what_was_claimed_before_an_error_is_given_to_its_holder(caplog):
    in_queues("a", "b")

    def fail_at_the_second(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and Note.objects.claimed().exists():
            raise ProgrammingError("for the test")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(fail_at_the_second):
        assert texts(Note.objects.claim(limit=4, queue=["a", "b"])) == ["a", "a"]
    assert "claimed no more than 2 jobs" in caplog.text


def test_every_claim_has_an_owner_of_its_own():
    Note.objects.bulk_create([Note(), Note()])
    first, second = claim_one(), claim_one()
    assert first.owner != second.owner


def test_a_job_is_claimed_by_one_of_many():
    Note.objects.bulk_create(Note() for _ in range(60))

    def drain():
        found = []
        while jobs := Note.objects.claim(limit=7):
            found += [job.pk for job in jobs]
        return found

    parts = start_all(*[drain] * 6)
    everything = [pk for part in parts for pk in part]
    assert len(everything) == len(set(everything))
    wait_until(lambda: everything.extend(drain()) or not Note.objects.ready().exists())
    assert len(everything) == len(set(everything)) == 60


def test_a_job_that_another_claims_first_is_not_claimed_again():
    """Where a claim is several statements, the other one comes between them."""
    Note.objects.bulk_create(Note() for _ in range(4))
    others = []

    def let_another_go_first(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and not others:
            others.extend(in_thread(lambda: Note.objects.claim(limit=3)))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(let_another_go_first):
        mine = Note.objects.claim(limit=3)
    assert len(others) == 3
    assert len(mine) == 1
    assert len({job.pk for job in mine + others}) == 4
    for job in mine + others:
        job.complete()


def test_nothing_is_claimed_inside_a_transaction():
    Note.objects.create()
    with pytest.raises(transaction.TransactionManagementError), transaction.atomic():
        Note.objects.claim()
    assert Note.objects.ready().count() == 1


def test_an_uncommitted_job_is_invisible_to_claimers():
    with transaction.atomic():
        Note.objects.create()
        assert in_thread(lambda: Note.objects.ready().count()) == 0
    assert len(Note.objects.claim()) == 1


def test_nothing_is_claimed_from_a_paused_queue_until_it_is_resumed():
    Note.objects.create()
    Note.objects.create(queue="other")
    Note.objects.pause(reason="the printer is on fire")
    assert Note.objects.claim() == []
    assert len(Note.objects.claim(queue="other")) == 1
    assert Queue.objects.get().pause_reason == "the printer is on fire"
    Note.objects.resume()
    assert len(Note.objects.claim()) == 1


def test_the_reason_of_a_pause_may_be_translated_late():
    Note.objects.pause(reason=gettext_lazy("Maintenance"))  # type: ignore[arg-type]
    assert Queue.objects.get().pause_reason == "Maintenance"


def test_a_pause_of_some_seconds_ends_by_itself():
    Note.objects.create()
    with virtual_clock() as clock:
        Note.objects.pause(seconds=Decimal("0.3"))  # type: ignore[arg-type]
        assert Note.objects.claim() == []
        clock.move(0.301)
        assert len(Note.objects.claim()) == 1


def test_a_pause_concerns_one_queue_table():
    Note.objects.pause()
    Kept.objects.create()
    assert len(Kept.objects.claim()) == 1


def test_an_expired_job_says_so_when_it_is_claimed():
    past = timezone.now() - timedelta(seconds=5)
    future = timezone.now() + timedelta(seconds=60)
    Note.objects.create(expires_at=past)
    Note.objects.create(expires_at=future)
    Note.objects.create()
    assert [job.has_expired for job in Note.objects.claim(limit=3)] == [True, False, False]


def test_an_owner_that_is_used_again_gets_what_it_has_claimed_now_and_no_more():
    first, urgent, last = (Strict.objects.create(priority=n) for n in (5, 1, 5))
    [job] = Strict.objects.claim(limit=1, owner="me")
    assert job.pk == urgent.pk
    job.complete()
    again = Strict.objects.claim(limit=2, owner="me")
    assert [job.pk for job in again] == [first.pk, last.pk]


@pytest.mark.parametrize("_", range(2))
def test_a_claim_of_a_test_knows_nothing_of_those_that_another_test_met(_):
    if connections["default"].vendor != "mysql":
        pytest.skip("its claims take no jobs out of their order")
    turns = vars(dialect_of(connections["default"]))["turns"]
    assert turns.contended == {}
    turns.note((table().name, "default"), 1, conflict=True)
