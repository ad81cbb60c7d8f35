"""Clients that say too much leave the others their turns."""

import asyncio

import pytest

from django_dbqueue.beanstalk import commands, looking
from django_dbqueue.beanstalk.turns import Turns
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
