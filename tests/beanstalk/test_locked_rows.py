"""What somebody else's open transaction holds up: its own rows, and nothing else."""

from contextlib import contextmanager

import pytest
from django.db import connection, connections
from django.db.utils import InterfaceError

from django_dbqueue.beanstalk import commands, replies
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.dialects import dialect_of
from django_dbqueue.models import Queue
from django_dbqueue.states import Status
from tests.kit.beanstalk_desk import Desk
from tests.kit.bounds import limits
from tests.kit.connections import other_connection
from tests.kit.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor == "sqlite", reason="it locks no rows"),
]
TABLE = TubeJob._meta.db_table


@pytest.fixture
def desk():
    with connection.cursor() as cursor:
        cursor.execute(dialect_of(connections["default"]).own_session())
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
    wait_until(lambda: desk.turn() or client not in desk.broker.state.clients)
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


def test_a_put_waits_for_the_room_of_its_tube_and_holds_up_no_other(desk):
    client, other = desk.client("full"), desk.client("a")
    with limits("dbqueue_beanstalk.tubejob:full", max_length=5):
        desk.put(client)
        with meanwhile("UPDATE dbqueue_queueroom SET room = 0"):
            desk.broker.submit(client, *[commands.Put(5, 0, 60, b"x")] * 2)
            desk.broker.submit(other, commands.Put(5, 0, 60, b"x"))
            desk.turn()
            assert desk.answers[other][-1].startswith(b"INSERTED")
        before = len(desk.answers[client])
        wait_until(lambda: desk.turn() or len(desk.answers[client]) == before + 2)
    assert TubeJob.objects.count() == 4
