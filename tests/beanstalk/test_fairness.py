"""Clients that say too much leave the others their turns."""

import asyncio
import time
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.db.utils import Error, OperationalError
from django.test.utils import CaptureQueriesContext

from django_dbqueue.beanstalk import (
    apart,
    broker,
    commands,
    faults,
    one_by_one,
    replies,
    rows,
    state,
)
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.beanstalk.protocol import Refused
from django_dbqueue.beanstalk.reading import Said
from django_dbqueue.beanstalk.turns import Turns
from django_dbqueue.beanstalk.verbs import VERBS
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import low_instants
from django_dbqueue.states import Status
from tests.kit.beanstalk_desk import Desk

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def desk():
    return Desk()


def test_many_who_ask_the_same_are_told_by_one_statement(desk):
    desk.put(desk.client("a"))
    clients = [desk.client("a") for _ in range(50)]
    for client in clients:
        desk.broker.submit(client, commands.PeekReady())
    with CaptureQueriesContext(connection) as statements:
        desk.turn()
    assert len([one for one in statements if "body" in one["sql"]]) == 1
    assert len({desk.answers[client][-1] for client in clients}) == 1


def test_who_peeks_in_another_tube_is_told_of_that(desk):
    one, two = desk.client("a"), desk.client("b")
    keys = {desk.put(one), desk.put(two)}
    for client in (one, two):
        desk.broker.submit(client, commands.PeekReady())
    desk.turn()
    found = {int(desk.answers[client][-1].split()[1]) for client in (one, two)}
    assert found == keys


def test_who_asks_and_changes_nothing_waits_for_those_who_do(desk, monkeypatch):
    monkeypatch.setattr(one_by_one, "ANSWERING_SECONDS", 0.0)
    asking = [desk.client() for _ in range(10)]
    for number, client in enumerate(asking):
        desk.broker.submit(client, commands.Use(f"tube{number}"))
    desk.broker.turn()
    putting = desk.client()
    desk.broker.submit(putting, commands.Put(0, 0, 60, b"x"))
    desk.broker.turn()
    assert desk.answers[putting][-1].startswith(b"INSERTED")
    assert sum(bool(desk.answers[client]) for client in asking) == 2
    desk.turn()
    assert [desk.answers[client] for client in asking] == [
        [b"USING tube%d\r\n" % number] for number in range(10)
    ]


@pytest.mark.any_database
def test_those_who_have_more_to_say_have_turns_one_after_another():
    said = []

    async def talk():
        turns = Turns(asyncio.get_running_loop())

        def speak(name, times):
            said.append(name)
            if times > 1:
                turns.wait(lambda: speak(name, times - 1))

        turns.wait(lambda: speak("much", 4))
        turns.wait(lambda: speak("little", 2))
        while len(said) < 6:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(talk(), 30))
    assert said == ["much", "little", "much", "little", "much", "much"]


@pytest.mark.any_database
def test_who_fails_in_its_turn_takes_it_from_no_other():
    said: list[Any] = []

    async def talk():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: said.append(type(context["exception"])))
        turns = Turns(loop)

        def fail():
            raise InterruptedError

        turns.wait(fail)
        turns.wait(lambda: said.append("other"))
        while len(said) < 2:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(talk(), 5))
    assert said == [InterruptedError, "other"]


def test_puts_of_one_client_are_one_statement_and_answered_in_order(
    desk, django_assert_max_num_queries
):
    client = desk.client()
    desk.turn()
    puts = [commands.Put(0, 0, 60, b"%d" % number) for number in range(50)]
    with django_assert_max_num_queries(10):
        desk.broker.submit(client, *puts)
        desk.turn()
    keys = [int(answer.split()[1]) for answer in desk.answers[client]]
    assert keys == sorted(keys)
    bodies = {row.pk: bytes(row.body) for row in TubeJob.objects.all()}
    assert [bodies[key] for key in keys] == [put.body for put in puts]


def test_an_outage_between_puts_of_one_client_answers_each_once(desk, monkeypatch):
    client, other = desk.client("a"), desk.client("b")
    really_put, calls = VERBS[commands.Put], []

    def put(turn, given):
        calls.append(len(given))
        if len(calls) in {1, 3}:
            raise ValueError("together they cannot be put")
        if len(calls) == 5:
            raise OperationalError("the database is away")
        really_put(turn, given)

    monkeypatch.setitem(VERBS, commands.Put, put)
    monkeypatch.setattr(faults, "is_to_be_repeated", lambda _, error: isinstance(error, Error))
    monkeypatch.setattr(apart, "is_to_be_repeated", faults.is_to_be_repeated)
    monkeypatch.setattr(broker, "is_to_be_repeated", faults.is_to_be_repeated)
    desk.broker.submit(other, commands.Put(0, 0, 60, b"other"))
    desk.broker.submit(client, *(commands.Put(0, 0, 60, b"%d" % number) for number in range(3)))
    with pytest.raises(OperationalError):
        desk.broker.turn()
    desk.turn()
    assert [len(desk.answers[one]) for one in (other, client)] == [1 + 3, 3 + 3]
    assert sorted(bytes(row.body) for row in TubeJob.objects.all()) == [b"0", b"1", b"2", b"other"]


@pytest.mark.any_database
def test_a_clients_bytes_are_puts_for_one_statement_and_what_follows():
    said = Said(job_size_max=100)
    said.feed(b"put 0 0 60 1\r\nx\r\n" * 150 + b"reserve\r\nput 0 0 60 1\r\ny\r\n")
    found = []
    while (command := said.next()) is not None:
        assert not isinstance(command, Refused)
        found.append(len(said.together_with(command)))
    assert found == [100, 50, 1, 1]


def test_an_expensive_question_of_few_leaves_the_broker_to_others(desk, monkeypatch):
    monkeypatch.setattr(one_by_one, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(one_by_one, "REST", 1e6)
    client, other = desk.client(), desk.client()
    desk.broker.submit(client, commands.Stats())
    desk.broker.turn()
    assert desk.broker._others._at > time.monotonic()
    assert desk.put(other)


def test_hundreds_of_tubes_with_jobs_are_found_by_few_statements(
    desk, django_assert_max_num_queries
):
    names = [f"tube{number}" for number in range(60)]
    for name in names:
        TubeJob.objects.enqueue(queue=name, body=b"x")
    TubeJob.objects.filter(queue__lt="tube3").bury()
    table = desk.broker.table
    with django_assert_max_num_queries(61 if connection.vendor == "mysql" else 4):
        assert rows.tubes_with_jobs(table) == {*names}


def test_jobs_that_are_due_become_ready_in_several_turns(desk, monkeypatch):
    monkeypatch.setattr(low_instants, "CHUNK", 10)
    TubeJob.objects.enqueue_many([{"body": b"x"}] * 35, queue="a", delay=60)
    QuerySet(TubeJob).update(retry_at=DbNow(plus=-1))
    desk.broker._refresh_at = 0.0
    desk.broker.turn()
    assert TubeJob.objects.filter(status=Status.READY).count() == 10
    assert desk.broker._rest() == 0.0
    for _ in range(3):
        desk.broker.turn()
    assert TubeJob.objects.filter(status=Status.READY).count() == 35


def test_who_watches_very_many_tubes_gets_the_job_of_any(desk, monkeypatch):
    monkeypatch.setattr(state, "TUBES_MAX", 10)
    monkeypatch.setattr(state, "MISSED_SECONDS", 60.0)  # however slow the machine is
    client = desk.client()
    for number in range(45):
        desk.ask(client, commands.Watch(f"tube{number}"))
    really_ready, looks = rows.ready, []

    def ready(table, limits):
        looks.append(len(limits))
        return really_ready(table, limits)

    monkeypatch.setattr(rows, "ready", ready)
    for name in ("tube9", "default", "tube33"):
        made = TubeJob.objects.enqueue(queue=name, body=b"x").job
        desk.ask(client, commands.ReserveWithTimeout(0))
        assert desk.hears(client, b"RESERVED %d " % made.pk)
    desk.ask(client, commands.ReserveWithTimeout(0))
    assert desk.hears(client, replies.TIMED_OUT)
    assert max(looks) == 10
