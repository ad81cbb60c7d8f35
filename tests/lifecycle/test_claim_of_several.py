"""One claim from several queues: what one has, then what the next ones have."""

import itertools
from contextlib import closing
from functools import partial

import pytest
from django.db import connection, transaction
from django.db.utils import IntegrityError

from django_dbqueue.dialects import Claim
from django_dbqueue.lifecycle.claim import claim_of_several
from django_dbqueue.states import Status
from tests.kit.broken_rows import edit, refused
from tests.kit.connections import other_connection
from tests.kit.jobs import fresh, overwrite, start_all, table
from tests.lifecycle.test_broken_rows import UNREADABLE, buried
from tests.queueapp.models import Note, Sealed

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]


def enqueue(**counts):
    for queue, count in counts.items():
        Note.objects.bulk_create(Note(queue=queue, text=f"{queue}{n}") for n in range(count))


def take(*queues, limit=100, owner="w.1"):
    found = claim_of_several(table(), queues, limit, owner)
    return {queue: [job.text for job in jobs] for queue, jobs in found.items()}


def test_it_takes_what_the_first_queue_has_and_then_what_the_next_ones_have():
    enqueue(a=2, b=1, c=3, d=1)
    assert take("c", "a", "empty", "d", limit=6) == {
        "c": ["c0", "c1", "c2"],
        "a": ["a0", "a1"],
        "d": ["d0"],
    }
    assert take("c", "a", "d") == {}
    assert [job.queue for job in Note.objects.ready()] == ["b"]


def test_it_takes_no_more_than_its_limit():
    enqueue(a=2, b=3, c=2)
    assert take("a", "b", "c", limit=4) == {"a": ["a0", "a1"], "b": ["b0", "b1"]}
    assert Note.objects.ready().count() == 3
    assert take("b", "c", limit=1) == {"b": ["b2"]}


def test_the_most_urgent_of_each_queue_come_first_then_the_oldest():
    for queue in ("b", "a"):
        for text, priority in [("too late", 99), ("late", 9), ("now", 1), ("soon", 5)]:
            Note.objects.create(queue=queue, text=text, priority=priority)
    assert take("a", "b", limit=7) == {
        "a": ["now", "soon", "late", "too late"],
        "b": ["now", "soon", "late"],
    }


def test_the_jobs_say_whose_they_are_and_of_which_queue():
    enqueue(a=1, b=1)
    found = claim_of_several(table(), ["a", "b"], 10, "worker.7", allowance=30)
    for queue, [job] in found.items():
        row = fresh(job)
        assert (job.queue, job.owner, job.status) == (queue, "worker.7", Status.CLAIMED)
        assert (row.queue, row.owner, row.status, row.attempts) == (queue, "worker.7", 1, 1)
        assert (row.retry_at - row.dequeued_time).total_seconds() == pytest.approx(90, abs=0.1)
        job.complete()
    assert Note.objects.done().count() == 2


def test_it_is_told_of_the_rows_as_a_claim_of_one_queue_is():
    enqueue(a=1, b=1)
    told = []
    claim_of_several(table(), ["a", "b"], 10, "w.1", on_rows=lambda _, rows: told.extend(rows))
    assert len(told) == 2
    assert len(told[0]) == len(table().attributes) + 1


def test_it_is_refused_inside_a_transaction_of_the_callers():
    with transaction.atomic(), pytest.raises(transaction.TransactionManagementError):
        take("a", "b")


def test_several_claims_at_once_take_each_job_once():
    names = [f"q{number:02}" for number in range(20)]
    enqueue(**dict.fromkeys(names, 3))

    def work(worker):
        keys = []
        for number in itertools.count(1):
            found = claim_of_several(table(), names, 7, f"{worker}.{number}")
            if not found:
                break
            keys += [job.pk for jobs in found.values() for job in jobs]
        return keys

    answers = start_all(*(partial(work, worker) for worker in "abcd"))
    # What two of them wanted at the same moment.
    answers.append(work("e"))
    keys = [key for answer in answers for key in answer]
    assert len(keys) == len(set(keys)) == 60


@pytest.mark.skipif(connection.vendor != "postgresql", reason="others do not lock what they read")
def test_it_passes_over_what_others_have_locked():
    enqueue(a=2, b=2, c=2)
    with closing(other_connection()) as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        name = Note._meta.db_table
        cursor.execute(f"SELECT id FROM {name} WHERE text = 'a0' FOR UPDATE")
        assert take("a", "b", "c", limit=2) == {"a": ["a1"], "b": ["b0"]}
        cursor.execute("ROLLBACK")


@pytest.mark.skipif(connection.vendor != "postgresql", reason="others do not lock what they read")
def test_it_locks_nothing_that_it_does_not_take():
    enqueue(a=2, b=2, c=2)
    name, text = table().name, "text"
    wanted = Claim(name, "id", text, "a", 3, "w.1", "losses = 1", [], False, others=["b", "c"])
    with closing(other_connection()) as other, other.cursor() as cursor, transaction.atomic():
        with connection.cursor() as ours:
            assert sorted(table().dialect.claim(ours, wanted)) == [("a0",), ("a1",), ("b0",)]
        cursor.execute(f"SELECT text FROM {name} ORDER BY id FOR UPDATE SKIP LOCKED")
        assert cursor.fetchall() == [("b1",), ("c0",), ("c1",)]


def test_a_row_that_was_moved_to_another_queue_meanwhile_is_not_taken():
    enqueue(a=1, b=1)
    [moved] = Note.objects.filter(queue="b")

    def move_first(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and "dequeued_time" in sql and moved.queue == "b":
            moved.queue = "z"
            overwrite(moved, queue="z")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(move_first):
        assert take("a", "b") == {"a": ["a0"]}
    assert fresh(moved).status == Status.READY


def test_a_queue_by_hand_that_only_some_databases_take_for_another_is_named_as_it_was_asked_for():
    jobs = [Note.objects.create(queue=queue) for queue in "ab"]
    edit(jobs[1], "queue = 'b '")
    found = claim_of_several(table(), ["a", "b"], 10, "w.1")
    assert found.keys() <= {"a", "b"}
    assert sum(map(len, found.values())) == Note.objects.exclude(status=Status.READY).count()


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_row_that_cannot_be_fetched_is_buried_among_those_of_other_queues(what):
    jobs = {queue: Sealed.objects.create(queue=queue) for queue in "abc"}
    edit(jobs["b"], UNREADABLE[what])
    found = claim_of_several(table(Sealed), ["a", "b", "c"], 10, "w.1")
    assert {queue: [job.pk for job in found[queue]] for queue in found} == {
        queue: [jobs[queue].pk] for queue in "ac"
    }
    [bad] = buried(Sealed)
    assert bad.pk == jobs["b"].pk


def test_where_a_row_cannot_be_written_it_takes_nothing_and_says_so():
    for queue, plain in [("a", "even"), ("b", "odd"), ("c", "even")]:
        Sealed.objects.create(queue=queue, plain=plain)
    with refused(Sealed), pytest.raises(IntegrityError):
        claim_of_several(table(Sealed), ["a", "b", "c"], 10, "w.1")
    assert Sealed.objects.ready().count() == 3
