"""What a database refuses for another's sake as a job is enqueued: outside of atomic() it is done
again, and never twice."""

import pytest
from django.db import Error, connection, transaction

from django_dbqueue.lifecycle import saving
from tests.kit.bounds import limits
from tests.kit.jobs import in_thread
from tests.queueapp.models import Note
from tests.sweeps.codes import CODES, Raise
from tests.sweeps.places import numbered

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]

WAYS = {
    "create": Note.objects.create,
    "bulk_create": lambda: Note.objects.bulk_create([Note(text="x")]),
    "enqueue": Note.objects.enqueue,
    "enqueue once": lambda: Note.objects.enqueue(dedup_key="k"),
    "enqueue_many": lambda: Note.objects.enqueue_many([{"text": "x"}]),
}
each_way = pytest.mark.parametrize("enqueue", WAYS.values(), ids=WAYS.keys())
AGAIN = [code for code in CODES[connection.vendor] if code.is_again]
[UNKNOWN, *_] = [code for code in CODES[connection.vendor] if code.is_unknown]
COMMITS = {"bulk_create", "enqueue_many"}  # in a transaction of Django's


class RaiseOnce(Raise):
    """At the first place of a kind."""

    def __init__(self, kind, code, side):
        super().__init__(None, code, side)
        self.kind = kind

    def __call__(self, number, what, run):
        if self.hit is None and what.startswith(self.kind):
            self.number = number
        return super().__call__(number, what, run)


@each_way
@pytest.mark.parametrize("code", AGAIN, ids=lambda code: str(code.name))
def test_a_refused_insert_is_done_again(enqueue, code):
    fault = RaiseOnce("INSERT", code, "before")
    with numbered(connection, fault):
        enqueue()
    assert fault.hit
    assert in_thread(Note.objects.count) == 1


@pytest.mark.parametrize("way", sorted(COMMITS))
def test_a_refused_commit_is_done_again(way):
    fault = RaiseOnce("commit", AGAIN[0], "before")
    with numbered(connection, fault):
        WAYS[way]()
    assert fault.hit
    assert in_thread(Note.objects.count) == 1


@each_way
def test_a_refused_insert_into_a_bounded_queue_is_done_again(enqueue):
    fault = RaiseOnce(
        "INSERT INTO " + connection.ops.quote_name(Note._meta.db_table), AGAIN[0], "before"
    )
    with limits(max_length=5), numbered(connection, fault):
        enqueue()
    assert in_thread(Note.objects.count) == 1


@each_way
def test_a_refused_commit_of_a_bounded_queue_is_done_again(enqueue, monkeypatch):
    # Else a job that finds room is one statement.
    monkeypatch.setattr(saving, "_insert_at_once", lambda *_: False)
    fault = RaiseOnce("commit", AGAIN[0], "before")
    with limits(max_length=5), numbered(connection, fault):
        enqueue()
    assert fault.hit
    [job] = in_thread(lambda: list(Note.objects.all()))
    assert job.created_at


@each_way
def test_an_insert_whose_answer_is_lost_is_not_done_again(enqueue):
    fault = RaiseOnce("INSERT", UNKNOWN, "after")
    with numbered(connection, fault), pytest.raises(Error):
        enqueue()
    connection.close()
    assert in_thread(Note.objects.count) <= 1


@each_way
def test_in_a_transaction_it_is_the_callers_to_repeat(enqueue):
    fault = RaiseOnce("INSERT", AGAIN[0], "before")
    with numbered(connection, fault), pytest.raises(Error), transaction.atomic():
        enqueue()
    assert not in_thread(Note.objects.exists)


@each_way
def test_without_autocommit_what_was_written_before_is_not_rolled_back_unseen(enqueue):
    fault = RaiseOnce("INSERT", AGAIN[0], "before")
    with numbered(connection, fault):
        transaction.set_autocommit(False)
        try:
            fault.kind = "nothing yet"
            Note.objects.create(text="earlier")
            fault.kind = "INSERT"
            with pytest.raises(Error):
                enqueue()
            is_told = connection.needs_rollback  # by Django, in a block of its own
            assert is_told or Note.objects.filter(text="earlier").exists()
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)
