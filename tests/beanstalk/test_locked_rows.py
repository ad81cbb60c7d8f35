"""What somebody else's open transaction holds up: its own rows, and nothing else."""

import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
from django.db import connection, connections, transaction
from django.db.utils import InterfaceError

from django_dbqueue.beanstalk import commands, replies
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.dialects import dialect_of
from django_dbqueue.fields import DbNow
from django_dbqueue.models import Queue
from django_dbqueue.models.room import QueueRoom
from django_dbqueue.states import Status
from tests.kit.beanstalk_desk import Desk
from tests.kit.bounds import limits
from tests.kit.connections import other_connection
from tests.kit.jobs import start
from tests.kit.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor == "sqlite", reason="it locks no rows"),
]
TABLE = TubeJob._meta.db_table
LOCK_WAIT = 20  # seconds; a worker's session waits for 2, and a busy machine may be as slow
WAIT_FOR_LOCKS = {
    "mysql": "SET SESSION innodb_lock_wait_timeout = {}",
    "postgresql": "SET lock_timeout = '{}s'",
}


@pytest.fixture
def desk():
    with connection.cursor() as cursor:
        cursor.execute(dialect_of(connections["default"]).own_session())
        cursor.execute(WAIT_FOR_LOCKS[connection.vendor].format(LOCK_WAIT))
    return Desk()


@contextmanager
def meanwhile(sql, *params):
    """A transaction that is open within, and comes to nothing."""
    other = other_connection()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute(sql, params)
        yield
        other.rollback()
    finally:
        other.close()


def deleted(*keys):
    return meanwhile(f"DELETE FROM {TABLE} WHERE id IN ({', '.join(map(str, keys))})")


def test_a_reserve_passes_over_a_locked_row(desk):
    client = desk.client("a")
    first, second = desk.put(client), desk.put(client)
    with deleted(first):
        desk.ask(client, commands.Reserve())
        assert desk.hears(client, b"RESERVED %d " % second, 1)
    assert desk.ask(client, commands.ReserveWithTimeout(2)) is None
    assert desk.hears(client, b"RESERVED %d " % first)


def test_a_reserve_passes_over_hundreds_of_locked_rows(desk):
    client = desk.client("a")
    keys = [desk.put(client) for _ in range(300)]
    with deleted(*keys[:-1]):
        desk.ask(client, commands.Reserve())
        assert desk.hears(client, b"RESERVED %d " % keys[-1], 10)


def test_who_waits_for_a_locked_row_is_told_that_time_is_over(desk):
    client = desk.client("a")
    with deleted(desk.put(client)):
        desk.ask(client, commands.ReserveWithTimeout(0))
        assert desk.hears(client, replies.TIMED_OUT, 10)


def test_commands_for_a_locked_row_wait_and_hold_up_no_other(desk):
    client, holder = desk.client("a"), desk.client("a")
    held, ready = desk.put(holder), desk.put(holder)
    assert desk.reserve(holder) == held
    with deleted(held, ready):
        assert desk.ask(client, commands.Delete(ready)) is None
        assert desk.ask(holder, commands.Touch(held)) is None
        other = desk.client("b")
        key = desk.put(other)
        assert desk.ask(other, commands.Delete(key)) == replies.DELETED
        assert desk.ask(other, commands.ReserveJob(ready)) is None
        assert replies.TOUCHED not in desk.answers[holder]
    assert desk.hears(client, replies.DELETED)
    assert desk.hears(holder, replies.TOUCHED)
    assert desk.hears(other, replies.NOT_FOUND)


def test_what_a_client_held_that_is_gone_comes_back_once_its_row_is_free(desk):
    client, other = desk.client("a"), desk.client("b")
    key = desk.put(client)
    assert desk.reserve(client) == key
    with deleted(key):
        desk.broker.submit(client, News.GONE)
        assert desk.put(other)
    other = desk.client("a")
    desk.ask(other, commands.Reserve())
    assert desk.hears(other, b"RESERVED %d " % key)
    assert TubeJob.objects.get(pk=key).timeouts == 0


def test_what_a_client_holds_that_is_gone_comes_back_though_another_row_of_its_is_locked(desk):
    client, other = desk.client("a"), desk.client("a")
    locked, free = desk.put(client), desk.put(client)
    assert {desk.reserve(client), desk.reserve(client)} == {locked, free}
    with deleted(locked):
        desk.broker.submit(client, commands.Bury(locked, 7), News.GONE)
        desk.turn()
        assert desk.reserve(other) == free
    wait_until(lambda: desk.turn() or TubeJob.objects.get(pk=locked).status != Status.CLAIMED)
    row = TubeJob.objects.get(pk=locked)
    assert (row.status, row.priority) == (Status.BURIED, 7)


def test_what_a_claim_may_have_taken_comes_back_once_its_row_is_free(desk, monkeypatch):
    client, other = desk.client("a"), desk.client("b")
    key = desk.put(client)
    really_commit = connections["default"].commit

    def commit():
        monkeypatch.undo()
        really_commit()
        raise InterfaceError("nobody answers")

    monkeypatch.setattr(connections["default"], "_commit", commit)
    desk.broker.submit(client, commands.ReserveWithTimeout(0))
    with pytest.raises(InterfaceError):
        desk.broker.turn()
    assert TubeJob.objects.get(pk=key).status == Status.CLAIMED
    with deleted(key):
        assert desk.put(other)
    wait_until(lambda: desk.turn() or TubeJob.objects.get(pk=key).status == Status.READY)


def test_a_ttr_that_is_over_while_its_row_is_locked_counts_once_it_is_free(desk):
    client, other = desk.client("a"), desk.client("b")
    key = desk.put(client, ttr=1)
    assert desk.reserve(client) == key
    with deleted(key):
        desk.ask(other, commands.ReserveWithTimeout(2))
        assert desk.hears(other, replies.TIMED_OUT)
    other = desk.client("a")
    desk.ask(other, commands.Reserve())
    assert desk.hears(other, b"RESERVED %d " % key)
    assert TubeJob.objects.get(pk=key).timeouts == 1


def test_a_delete_of_what_is_not_committed_yet_is_answered_at_once(desk):
    key = desk.put(desk.client("a"))
    row = TubeJob.objects.filter(pk=key)
    columns = ", ".join(f.column for f in TubeJob._meta.concrete_fields if not f.primary_key)
    sql = f"INSERT INTO {TABLE} (id, {columns}) SELECT {key + 1000}, {columns} FROM {TABLE}"
    client = desk.client("b")
    with meanwhile(sql):
        assert desk.ask(client, commands.Delete(key + 1000)) == replies.NOT_FOUND
    assert row.get().status == Status.READY


def test_a_pause_of_a_tube_waits_for_its_row_and_holds_up_no_other(desk):
    client, other = desk.client("a"), desk.client("a")
    key = desk.put(client)
    TubeJob.objects.resume("a")
    with meanwhile(f"UPDATE {Queue._meta.db_table} SET pause_reason = 'x'"):
        desk.broker.submit(client, commands.PauseTube("a", 60))
        desk.turn()
        assert desk.reserve(other) == key
        assert replies.PAUSED not in desk.answers[client]
    assert desk.hears(client, replies.PAUSED)


def room_taken(queue="full", stripe=0):
    """As by who enqueues in a transaction that goes on."""
    sql = "UPDATE dbqueue_queueroom SET room = room - 1 WHERE queue = %s AND stripe = %s"
    return meanwhile(sql, queue, stripe)


@contextmanager
def enqueued_in_a_transaction_that_goes_on(tube):
    """It is committed at the end."""
    is_enqueued, may_end = threading.Event(), threading.Event()

    def work():
        with transaction.atomic():
            TubeJob.objects.create(queue=tube)
            is_enqueued.set()
            may_end.wait(30)

    thread = start(work)
    try:
        assert is_enqueued.wait(30)
        yield
    finally:
        may_end.set()
        thread.result()


def seconds_of(turn):
    began = time.monotonic()
    turn()
    return time.monotonic() - began


@pytest.mark.parametrize("max_length", [5, 500])
def test_a_put_waits_for_the_room_of_its_tube_and_holds_up_no_other(desk, max_length):
    client, other = desk.client("full"), desk.client("a")
    with limits("dbqueue_beanstalk.tubejob:full", max_length=max_length):
        desk.put(client)
        with meanwhile("UPDATE dbqueue_queueroom SET room = 0"):
            before = len(desk.answers[client])
            desk.broker.submit(client, *[commands.Put(5, 0, 60, b"x")] * 2)
            desk.broker.submit(other, commands.Put(5, 0, 60, b"x"))
            assert seconds_of(desk.turn) < LOCK_WAIT / 2
            assert desk.answers[other][-1].startswith(b"INSERTED")
            end = time.monotonic() + 2
            while time.monotonic() < end:
                assert seconds_of(lambda: desk.put(other)) < LOCK_WAIT / 2
            assert len(desk.answers[client]) == before
        wait_until(lambda: desk.turn() or len(desk.answers[client]) == before + 2)
    assert TubeJob.objects.filter(queue="full").count() == 3


def test_who_is_the_first_to_enqueue_into_a_tube_with_a_limit_holds_up_no_other(desk):
    with limits("dbqueue_beanstalk.tubejob:full", max_length=5):
        client, other = desk.client("full"), desk.client("a")
        with enqueued_in_a_transaction_that_goes_on("full"):
            desk.broker.submit(client, commands.Put(5, 0, 60, b"x"))
            desk.broker.submit(other, commands.Put(5, 0, 60, b"x"))
            assert seconds_of(desk.turn) < LOCK_WAIT / 2
            assert desk.answers[other][-1].startswith(b"INSERTED")
            assert TubeJob.objects.count() == 1
        assert desk.hears(client, b"INSERTED")
    assert TubeJob.objects.filter(queue="full").count() == 2


def test_what_is_locked_is_tried_again_soon_at_first_and_then_more_rarely(desk):
    """Else a put comes late between the short transactions of others, or never."""
    client = desk.client("full")
    with limits("dbqueue_beanstalk.tubejob:full", max_length=5):
        desk.put(client)
        with room_taken():
            tries = []
            desk.broker.submit(client, commands.Put(5, 0, 60, b"x"))
            end = time.monotonic() + 2
            while time.monotonic() < end:
                desk.turn()
                tries.append(desk.broker._inbox.later_at)
                assert tries[-1] - time.monotonic() <= (0.011 if len(tries) == 1 else 0.2)
                time.sleep(max(0.0, tries[-1] - time.monotonic()))
            assert len(tries) < 40
        assert desk.hears(client, b"INSERTED %d" % (TubeJob.objects.get().pk + 1))


def test_a_put_waits_for_who_counts_its_tube(desk):
    """He has locked the first stripe; all others have no room that was handed out."""
    client = desk.client("full")
    with limits("dbqueue_beanstalk.tubejob:full", max_length=500):
        desk.put(client)
        QueueRoom.objects.update(room=0)
        with room_taken():
            desk.broker.submit(client, commands.Put(5, 0, 60, b"x"))
            assert seconds_of(desk.turn) < LOCK_WAIT / 2
            assert TubeJob.objects.count() == 1
        assert desk.hears(client, b"INSERTED %d" % (TubeJob.objects.get().pk + 1))


def test_a_put_goes_by_a_stripe_that_nobody_has_locked(desk):
    client = desk.client("full")
    with limits("dbqueue_beanstalk.tubejob:full", max_length=100):
        desk.put(client)
        QueueRoom.objects.update(room=10, max_length=100, counted_at=DbNow())
        with room_taken():
            assert desk.put(client)
    assert TubeJob.objects.count() == 2


def test_who_touches_in_time_keeps_its_job_though_a_room_is_locked(desk):
    full, one, two = desk.client("full"), desk.client("a"), desk.client("a")
    with limits("dbqueue_beanstalk.tubejob:full", max_length=5):
        desk.put(full)
        key = desk.put(one, ttr=4)
        assert desk.reserve(one) == key
        desk.ask(two, commands.Reserve())
        with room_taken():
            desk.broker.submit(full, commands.Put(5, 0, 60, b"x"))
            for _ in range(12):
                end = time.monotonic() + 0.5
                while time.monotonic() < end:
                    time.sleep(min(0.05, desk.broker.turn()))
                assert desk.ask(one, commands.Touch(key)) == replies.TOUCHED
        assert desk.answers[two][-1] == b"WATCHING 1\r\n"


def test_puts_that_waited_are_answered_in_their_order(desk):
    clients = [desk.client("full") for _ in range(12)]
    before = {client: len(desk.answers[client]) for client in clients}

    def have_heard():
        desk.turn()
        return all(len(desk.answers[client]) == before[client] + 90 for client in clients)

    with limits("dbqueue_beanstalk.tubejob:full", max_length=5000):
        desk.ask(clients[0], commands.Delete(desk.put(clients[0])))
        before[clients[0]] += 2
        with meanwhile("UPDATE dbqueue_queueroom SET room = 0"):
            for number, client in enumerate(clients):
                bodies = [b"%d.%d" % (number, one) for one in range(90)]
                desk.broker.submit(client, *[commands.Put(5, 0, 60, body) for body in bodies])
            desk.broker.turn()  # it takes a thousand of them, and so a part of a client's
        wait_until(have_heard)
    put = {row.pk: bytes(row.body) for row in TubeJob.objects.all()}
    for number, client in enumerate(clients):
        heard = [put[int(one.split()[1])] for one in desk.answers[client][before[client] :]]
        assert heard == [b"%d.%d" % (number, one) for one in range(90)]


class Interrupted(Desk):
    """Somebody enqueues in a transaction that goes on, right after so many answers."""

    locked_at = None

    def lock_after(self, client, count):
        self.locked_at, self.open = (client, count), ExitStack()
        return self.open

    def _note(self, client, reply):
        super()._note(client, reply)
        if (client, len(self.answers[client])) == self.locked_at:
            self.open.enter_context(room_taken())


@pytest.fixture
def interrupted(desk):
    """On its session."""
    return Interrupted()


def test_of_puts_one_by_one_none_is_answered_before_an_earlier_one(interrupted):
    desk, client = interrupted, interrupted.client("full")
    before = len(desk.answers[client])
    with limits("dbqueue_beanstalk.tubejob:full", max_length=3):
        desk.ask(client, commands.Delete(desk.put(client)))
        before += 2
        with desk.lock_after(client, before + 2):
            puts = [commands.Put(5, 0, 60, b"%d" % number) for number in range(5)]
            desk.broker.submit(client, *puts)
            desk.turn()
            assert len(desk.answers[client]) == before + 2
        wait_until(lambda: desk.turn() or len(desk.answers[client]) == before + 5)
    put = {row.pk: bytes(row.body) for row in TubeJob.objects.all()}
    heard = [one.split() for one in desk.answers[client][before:]]
    assert [one[0] for one in heard] == [b"INSERTED"] * 3 + [b"OUT_OF_MEMORY"] * 2
    assert [put[int(one[1])] for one in heard[:3]] == [b"0", b"1", b"2"]
