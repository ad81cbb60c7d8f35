"""Queues that a claim from several of them has not come to, or of which others got a part."""

import random
from contextlib import contextmanager

import pytest
from django.db import connection

from django_dbqueue.states import Status
from django_dbqueue.worker import queue_poller
from django_dbqueue.worker.queue_poller import TablePoller
from tests.kit.broken_rows import refused
from tests.kit.jobs import overwrite, table
from tests.queueapp.models import Note, Sealed
from tests.worker.test_many_queues import claimer, enqueue, names

pytestmark = [pytest.mark.usefixtures("db_rows", "quick_looks"), pytest.mark.each_database]


def test_a_row_that_nobody_can_write_keeps_no_queue_behind_its_own_waiting(monkeypatch):
    """Though others of its own queue come all the time."""
    monkeypatch.setattr(queue_poller, "NEW_QUEUES_SECONDS", 3600.0)  # however slow the machine is
    for queue, plain in [("a", "even"), ("b", "odd"), ("c", "even"), ("d", "even")]:
        Sealed.objects.create(queue=queue, plain=plain)
    one, found = claimer(model=Sealed), []
    with refused(Sealed):
        for _ in range(8):
            Sealed.objects.create(queue="b", plain="even")
            one.turn()
            found.append([job.queue for item in one.buffer.withdraw() for job in item.jobs])
    assert found[:4] == [["a"], ["b", "b"], ["c", "d"], ["b", "b"]]
    assert all(found)


@contextmanager
def thief(job):
    """Another worker takes a job between the look of a claim and its write."""

    def steal_first(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and "dequeued_time" in sql:
            overwrite(job, status=Status.CLAIMED, owner="another.1")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(steal_first):
        yield


@pytest.mark.skipif(connection.vendor != "mysql", reason="others look and write in one statement")
def test_a_queue_of_which_others_have_got_a_part_is_claimed_from_without_another_look(monkeypatch):
    looks, look = [], TablePoller.look
    monkeypatch.setattr(TablePoller, "look", lambda *args: (looks.append(1), look(*args)))
    enqueue("a", each=5)
    one = claimer(batch=2)
    with thief(Note.objects.order_by("pk")[0]):
        one.turn()
    [poller] = one.scheduler.pollers
    assert (len(one.buffer.withdraw()), list(poller.queues)) == (1, ["a"])
    one.turn()
    assert (len(one.buffer.withdraw()), list(poller.queues)) == (2, ["a"])
    assert len(looks) == 1
    # A claim that nobody disputes tells that there is no more.
    one.turn()
    assert (len(one.buffer.withdraw()), list(poller.queues)) == (1, [])


@pytest.mark.skipif(connection.vendor != "mysql", reason="others pass over what is locked")
def test_queues_that_a_claim_has_passed_over_for_others_are_not_taken_for_empty(monkeypatch):
    enqueue(*names(5), each=10)
    one = claimer(batch=10)
    [poller] = one.scheduler.pollers
    poller.breadth.queues = 5
    vars(table().dialect)["turns"].note((table().name, ""), 10, conflict=True)
    monkeypatch.setattr(random, "randint", lambda _, most: most)
    one.turn()
    assert [item.queue_name.queue for item in one.buffer.withdraw()] == ["q004"] * 10
    assert sorted(poller.queues) == names(5)
