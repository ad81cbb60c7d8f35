"""A commit that fails, and one that gets no answer."""

from typing import Any

import pytest
from django.db import connection, connections
from django.db.models import QuerySet
from django.db.utils import OperationalError
from django.test.utils import CaptureQueriesContext

from django_dbqueue.beanstalk import broker, commands, replies, transactions
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.dialects import ErrorKind, dialect_of
from django_dbqueue.dialects.types import RowsLocked
from django_dbqueue.states import Status
from tests.kit.beanstalk_desk import Desk
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def fail_once(monkeypatch):
    """The next commit."""

    def fail(kind, *, is_done, first=lambda: None):
        connection: Any = connections["default"]
        really_commit, dialect = connection._commit, dialect_of(connection)

        def commit():
            monkeypatch.setattr(connection, "_commit", really_commit)
            first()
            if is_done:
                really_commit()
            raise OperationalError("at COMMIT")

        monkeypatch.setattr(connection, "_commit", commit)
        monkeypatch.setattr(dialect, "kind_of_code", lambda error: kind)

    return fail


def test_who_waits_is_told_that_time_is_over_though_all_is_locked(desk, monkeypatch):
    def reserve(turn, waiting):
        raise RowsLocked("by somebody")

    client = desk.client("a")
    monkeypatch.setattr(broker, "reserve", reserve)
    monkeypatch.setattr(dialect_of(connections["default"]), "retry_pauses", lambda: iter(()))
    desk.broker.submit(client, commands.ReserveWithTimeout(0))
    with pytest.raises(RowsLocked):
        desk.broker.turn()
    assert desk.answers[client][-1] == replies.TIMED_OUT


def bodies():
    return [bytes(row.body) for row in TubeJob.objects.order_by("pk")]


def test_a_put_whose_commit_failed_is_answered_once(desk, fail_once):
    one, two = desk.client("a"), desk.client("b")
    before = [len(desk.answers[client]) for client in (one, two)]
    fail_once(ErrorKind.FULL, is_done=False)
    desk.broker.submit(one, commands.Put(0, 0, 60, b"1"))
    desk.broker.submit(two, commands.Put(0, 0, 60, b"2"))
    desk.turn()
    heard = [desk.answers[client][at:] for client, at in zip((one, two), before, strict=True)]
    assert [[answer.split()[0] for answer in some] for some in heard] == [[b"INSERTED"]] * 2
    assert bodies() == [b"1", b"2"]


@pytest.mark.parametrize("is_done", [False, True])
def test_who_put_is_left_without_an_answer_where_nobody_knows(desk, fail_once, is_done):
    client = desk.client("a")
    fail_once(ErrorKind.LOST, is_done=is_done)
    desk.broker.submit(client, commands.Put(0, 0, 60, b"1"))
    with pytest.raises(OperationalError):
        desk.broker.turn()
    desk.turn()
    assert desk.answers[client][-1] is None
    assert bodies() == [b"1"] * is_done


def test_who_kicks_many_is_left_without_an_answer_and_kicks_no_more(desk, fail_once):
    TubeJob.objects.enqueue_many([{"body": b"x"}] * 700, queue="a")
    TubeJob.objects.bury()
    client = desk.client("a")
    before = len(desk.answers[client])
    fail_once(ErrorKind.LOST, is_done=True)
    desk.broker.submit(client, commands.Kick(600))
    with pytest.raises(OperationalError):
        desk.broker.turn()
    desk.turn()
    assert desk.answers[client][before:] == [None]
    assert TubeJob.objects.filter(status=Status.READY).count() == 500


@pytest.fixture
def lose_a_claim(desk, fail_once):
    """It gets no answer to its commit; what this comes to once the database goes on."""

    def lose():
        client, columns = desk.client(), {}
        key = desk.put(client)
        row = QuerySet(TubeJob).filter(pk=key)

        def remember():
            columns.update(row.values().get())

        fail_once(ErrorKind.LOST, is_done=False, first=remember)
        desk.broker.submit(client, commands.Reserve())
        with pytest.raises(OperationalError):
            desk.broker.turn()
        assert columns["status"] == Status.CLAIMED
        desk.broker.submit(client, News.GONE)
        desk.turn()
        assert row.get().status == Status.READY
        return lambda: row.update(**columns)

    return lose


def test_what_a_commit_claims_that_comes_about_late_comes_back_unharmed(
    desk, lose_a_claim, monkeypatch
):
    monkeypatch.setattr(transactions, "UNSURE_LOOK_SECONDS", 0.05)
    commit_late = lose_a_claim()
    commit_late()
    wait_until(lambda: desk.turn() or TubeJob.objects.get().status == Status.READY)
    row = TubeJob.objects.get()
    assert (row.attempts, row.timeouts, row.owner, row.retry_at) == (0, 0, None, None)
    assert desk.reserve(desk.client()) == row.pk


def test_a_commit_without_an_answer_is_looked_for_now_and_then(desk, lose_a_claim, monkeypatch):
    monkeypatch.setattr(transactions, "UNSURE_LOOK_SECONDS", 3600.0)
    lose_a_claim()
    with CaptureQueriesContext(connection) as statements:
        for _ in range(5):
            desk.turn()
    assert not [one for one in statements if "owner IN" in one["sql"]]
    assert desk.broker.turn() > 0


def test_a_commit_without_an_answer_is_not_looked_for_for_ever(desk, lose_a_claim, monkeypatch):
    monkeypatch.setattr(transactions, "UNSURE_SECONDS", 0.0)
    lose_a_claim()
    assert desk.broker._transactions.unsure_at == float("inf")
