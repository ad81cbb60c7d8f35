"""Clients that say too much leave the others their turns."""

import asyncio

import pytest
from django.db.utils import Error, OperationalError

from django_dbqueue.beanstalk import apart, broker, commands, faults, looking
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.beanstalk.protocol import Refused
from django_dbqueue.beanstalk.reading import Said
from django_dbqueue.beanstalk.turns import Turns
from django_dbqueue.beanstalk.verbs import VERBS
from tests.kit.beanstalk_desk import Desk

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def desk():
    return Desk()


def test_many_who_ask_the_same_are_told_by_one_statement(desk, django_assert_max_num_queries):
    desk.put(desk.client("a"))
    clients = [desk.client("a") for _ in range(50)]
    for client in clients:
        desk.broker.submit(client, commands.PeekReady())
    with django_assert_max_num_queries(4):
        desk.turn()
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
    monkeypatch.setattr(looking, "LOOK_SECONDS", 0.0)
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


def test_puts_of_one_client_are_one_statement_and_answered_in_order(
    desk, django_assert_max_num_queries
):
    client = desk.client()
    desk.turn()
    puts = [commands.Put(0, 0, 60, b"%d" % number) for number in range(50)]
    with django_assert_max_num_queries(8):
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
