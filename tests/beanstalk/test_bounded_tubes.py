"""Tubes with a limit, for clients that put into them."""

import logging

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.beanstalk import commands, replies, verbs
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.states import Status
from tests.kit.beanstalk_desk import Desk
from tests.kit.bounds import limits

pytestmark = pytest.mark.usefixtures("db_rows")
TUBE = "dbqueue_beanstalk.tubejob:full"


@pytest.fixture
def desk():
    return Desk()


def put(desk, client, number=0, priority=5):
    return desk.ask(client, commands.Put(priority, 0, 60, b"%d" % number))


def bodies(status):
    found = TubeJob.objects.filter(status=status, queue="full")
    return [bytes(row.body) for row in found.order_by("pk")]


@pytest.mark.parametrize("when_full", ["reject", "wait"])
def test_who_puts_into_a_full_tube_is_answered_busy_at_once(desk, when_full):
    with limits(TUBE, max_length=2, when_full=when_full):
        client = desk.client("full")
        assert [put(desk, client)[:8] for _ in range(2)] == [b"INSERTED"] * 2
        assert put(desk, client) == replies.OUT_OF_MEMORY
        key = desk.reserve(client)
        assert put(desk, client) == replies.OUT_OF_MEMORY
        assert desk.ask(client, commands.Delete(key)) == replies.DELETED
        assert put(desk, client)[:8] == b"INSERTED"


def test_a_full_tube_keeps_nobody_out_of_another(desk):
    with limits(TUBE, max_length=1):
        full, other = desk.client("full"), desk.client("other")
        put(desk, full)
        desk.broker.submit(other, commands.Put(5, 0, 60, b"x"))
        desk.broker.submit(full, *[commands.Put(5, 0, 60, b"x")] * 3)
        desk.broker.submit(other, commands.Put(5, 0, 60, b"y"))
        desk.turn()
    assert desk.answers[full][-3:] == [replies.OUT_OF_MEMORY] * 3
    assert all(answer.startswith(b"INSERTED") for answer in desk.answers[other][-2:])


def test_of_puts_in_one_go_those_that_have_room_get_in(desk):
    with limits(TUBE, max_length=3):
        client = desk.client("full")
        before = len(desk.answers[client])
        desk.broker.submit(client, *(commands.Put(5, 0, 60, b"%d" % n) for n in range(5)))
        desk.turn()
        words = [answer.split()[0] for answer in desk.answers[client][before:]]
    assert words == [b"INSERTED"] * 3 + [b"OUT_OF_MEMORY"] * 2
    assert bodies(Status.READY) == [b"0", b"1", b"2"]


def test_a_crowd_at_a_full_tube_costs_few_statements_and_one_warning(
    desk, caplog, django_assert_max_num_queries
):
    with limits(TUBE, max_length=1):
        clients = [desk.client("full") for _ in range(50)]
        put(desk, clients[0])
        with django_assert_max_num_queries(35), caplog.at_level(logging.WARNING):
            for client in clients:
                desk.broker.submit(client, commands.Put(5, 0, 60, b"x"))
            desk.turn()
    assert {desk.answers[client][-1] for client in clients} == {replies.OUT_OF_MEMORY}
    assert len(caplog.records) == 1


@pytest.mark.parametrize("when_full", ["reject", "drop_oldest"])
def test_ever_more_urgent_puts_into_a_full_tube_are_one_warning(desk, caplog, when_full):
    with limits(TUBE, max_length=1, when_full=when_full):
        client = desk.client("full")
        put(desk, client, priority=0)
        before = len(desk.answers[client])
        puts = [commands.Put(100 - number, 0, 60, b"x") for number in range(100)]
        with CaptureQueriesContext(connection) as queries, caplog.at_level(logging.WARNING):
            desk.broker.submit(client, *puts)
            desk.turn()
    assert desk.answers[client][before:] == [replies.OUT_OF_MEMORY] * 100
    assert len(caplog.records) == 1
    if when_full == "reject":
        assert len(queries) <= 40


def test_the_oldest_makes_room_and_a_client_may_kick_it_later(desk):
    with limits(TUBE, max_length=2, when_full="drop_oldest"):
        client = desk.client("full")
        for number in range(4):
            assert put(desk, client, number).startswith(b"INSERTED")
        assert bodies(Status.READY) == [b"2", b"3"]
        assert bodies(Status.BURIED) == [b"0", b"1"]
        assert desk.ask(client, commands.PeekBuried()).endswith(b"\r\n0\r\n")
        for _ in range(2):
            desk.ask(client, commands.Delete(desk.reserve(client)))
        assert desk.ask(client, commands.Kick(1)) == b"KICKED 1\r\n"
        assert bodies(Status.READY) == [b"0"]


def test_none_makes_room_that_is_more_urgent_than_the_new_one(desk):
    with limits(TUBE, max_length=1, when_full="drop_oldest"):
        client = desk.client("full")
        put(desk, client, 0, priority=3)
        before = len(desk.answers[client])
        desk.broker.submit(client, commands.Put(9, 0, 60, b"1"), commands.Put(1, 0, 60, b"2"))
        desk.turn()
    assert desk.answers[client][before] == replies.OUT_OF_MEMORY
    assert desk.answers[client][before + 1].startswith(b"INSERTED")
    assert (bodies(Status.READY), bodies(Status.BURIED)) == ([b"2"], [b"0"])


def test_more_than_a_statement_may_hold_is_put_in_several(desk):
    client = desk.client("full")
    before = len(desk.answers[client])
    desk.broker.submit(client, *[commands.Put(5, 0, 60, b"x" * 65_000)] * 300)
    desk.turn()
    assert {answer.split()[0] for answer in desk.answers[client][before:]} == {b"INSERTED"}
    assert len(desk.answers[client]) == before + 300
    assert TubeJob.objects.count() == 300


@pytest.mark.any_database
def test_a_statement_puts_a_thousand_empty_bodies_at_most():
    jobs = [TubeJob(queue="full", body=b"")] * 2500
    assert [len(some) for some in verbs._statements(jobs)] == [1000, 1000, 500]
