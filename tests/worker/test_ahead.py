"""How far ahead of its runners a child claims, and when a runner may start what was claimed."""

import threading
import time

import pytest
from django.db import connections

from django_dbqueue.worker import buffer as buffer_module
from django_dbqueue.worker import claimer as claimer_module
from django_dbqueue.worker import runner as runner_module
from django_dbqueue.worker.buffer import Buffer, Item
from django_dbqueue.worker.claimer import CLAIM_BATCH_MAX, Claimer
from django_dbqueue.worker.finisher import Finisher
from django_dbqueue.worker.keyed_ahead import KeyedAhead
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.queue_poller import QueueScheduler
from django_dbqueue.worker.runner import Runner
from django_dbqueue.worker.served import parse_served
from django_dbqueue.worker.session import Session
from django_dbqueue.worker.shared_memory import SharedMemory
from django_dbqueue.worker.wakeup import Wakeup
from tests.kit.jobs import claimed, in_thread, table
from tests.queueapp.models import Batch, Note, Shared

pytestmark = pytest.mark.usefixtures("db_rows")


def claimer(name="queueapp.Note", **options):
    served = parse_served([name])
    return Claimer(
        Options(served=served, **options),
        "w.1-",
        Buffer(1),
        SharedMemory(1),
        Wakeup([]),
        share=None,
        unwritten=lambda: 0,
    )


def adapted(one, queue_table):
    one._was_full, one._filled_at = True, time.monotonic()
    one.adapt(queue_table)
    return one.batch, one.buffer.refill_at


def test_batches_grow_before_more_than_one_is_fetched_ahead():
    one = claimer()
    steps = [adapted(one, table()) for _ in range(6)]
    assert [batch for batch, _ in steps] == [20, 40, 80, *[CLAIM_BATCH_MAX] * 3]
    assert [refill_at for _, refill_at in steps] == [10, 20, 40, 149, 149, 149]
    one._filled_at -= 3600
    one.adapt(table())
    assert (one.batch, one.buffer.refill_at) == (50, 25)


def test_a_batch_size_that_was_asked_for_is_kept():
    one = claimer(batch_size=500, batch_grows=False)
    assert adapted(one, table()) == (500, 749)


def looks(lengths):
    """The buffer of a child with no runner, each time that the child has looked for such jobs."""
    for length in lengths:
        Note.objects.create(text="x" * length)
    one = claimer(batch_size=2)
    for _ in range(10):
        one.turn()
        yield one.buffer


@pytest.mark.parametrize(("size", "at_least", "at_most"), [(60, 4, 16), (800, 1, 2)])
def test_what_is_fetched_ahead_is_bounded_by_its_size(monkeypatch, size, at_least, at_most):
    monkeypatch.setattr(buffer_module, "AHEAD_BYTES_MAX", 1000)
    for number, buffer in enumerate(looks([size] * 30)):
        if number < 4:
            buffer.withdraw()
    assert at_least <= buffer.ahead <= at_most


def test_a_large_job_among_small_ones_is_soon_forgotten(monkeypatch):
    monkeypatch.setattr(buffer_module, "AHEAD_BYTES_MAX", 1000)
    monkeypatch.setattr(claimer_module, "AHEAD_SECONDS", 3600)
    taken = [len(buffer.withdraw()) for buffer in looks([500] * 2 + [1] * 60)]
    assert sum(taken) == 62
    assert taken[:6] == [2, 1, 2, 4, 8, 16]


def test_jobs_that_run_together_are_one_item_and_counted_as_one():
    assert adapted(claimer(batch_size=500), table(Batch)) == (500, 1)


def test_news_do_not_end_the_rest_of_a_locked_table():
    scheduler = QueueScheduler(Options(served=parse_served(["queueapp.Note", "queueapp.Batch"])))
    for poller, is_locked in zip(scheduler.pollers, (True, False), strict=True):
        poller.next_look, poller.is_locked = 5.0, is_locked
    scheduler.look_now()
    assert [poller.next_look for poller in scheduler.pollers] == [5.0, 0.0]


def test_a_look_at_a_dead_connection_may_take_so_long_that_nothing_may_start(monkeypatch):
    monkeypatch.setattr(runner_module, "drop_dead_connections", lambda: time.sleep(0.4))
    job = claimed(Note)
    shared, buffer, stop = SharedMemory(1), Buffer(1), threading.Event()
    finisher = Finisher(Session({"default"}), 10, lambda: None)
    one = Runner(0, buffer, finisher, shared, 0.2, stop, lambda: None)
    one._checked_at -= 3600
    stop.set()
    shared.beat("default", time.monotonic(), 1)

    def take():
        one.take(Item(table(), job.claim_owner, [job], time.monotonic(), 1))
        connections.close_all()

    in_thread(take)
    assert (finisher.pending, len(buffer.unstarted)) == (0, 1)


def test_jobs_with_keys_are_claimed_one_for_each_free_runner():
    """Else the slots of all keys would wait in the buffer of one child."""
    Shared.objects.bulk_create(Shared(tenant=f"t{n}") for n in range(20))
    one = claimer("queueapp.Shared")
    for _ in range(3):
        one.turn()
    assert len(one.buffer) == 1


def test_of_jobs_with_keys_that_are_quick_more_are_claimed_at_once():
    ahead, found = KeyedAhead(), []
    for seconds in (0.001, 0.001, 0.001, 0.001, 1.0, 1.0, 1.0):
        found.append(ahead.most(1, seconds, 100))
        ahead.claimed([Shared(concurrency_key="a")] * found[-1], found[-1])
    assert found == [1, 1, 2, 4, 2, 1, 1]


def test_jobs_without_keys_are_fetched_ahead_as_ever():
    Shared.objects.bulk_create(Shared() for _ in range(20))
    one = claimer("queueapp.Shared")
    one.turn()
    assert len(one.buffer) == 10
