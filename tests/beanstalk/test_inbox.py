"""Which of what clients want is for one turn of the broker."""

from collections import Counter

import pytest

from django_dbqueue.beanstalk import commands
from django_dbqueue.beanstalk.inbox import Inbox, News
from django_dbqueue.beanstalk.state import Client
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.any_database


@pytest.fixture
def inbox():
    return Inbox(Counter(), lambda: None)


def test_those_who_ask_about_one_job_are_taken_together(inbox):
    clients = [Client() for _ in range(20)]
    for client in clients:
        inbox.put(client, commands.StatsJob(5))
    assert [client for client, _ in inbox.take()] == clients


def test_those_who_change_one_job_are_taken_one_by_one_in_their_order(inbox):
    clients = [Client() for _ in range(20)]
    for client in clients:
        inbox.put(client, commands.Touch(5))
    inbox.put(clients[0], commands.Delete(6))
    assert inbox.take() == [(clients[0], commands.Touch(5)), (clients[0], commands.Delete(6))]
    found = []
    while len(found) < 19:
        inbox.put(clients[0], commands.Touch(5))
        [(client, _)] = inbox.take()
        found.append(client)
    assert found == clients[1:]


def test_a_turn_takes_some_of_very_many_puts_and_the_rest_comes_in_order(inbox):
    client, other = Client(), Client()
    puts = [commands.Put(0, 0, 60, b"%d" % number) for number in range(2500)]
    for start in range(0, 2500, 100):
        inbox.put(client, *puts[start : start + 100])
    inbox.put(other, commands.Use("x"))
    first, second, third = inbox.take(), inbox.take(), inbox.take()
    assert first[-1] == (other, commands.Use("x"))
    assert [len(first), len(second), len(third)] == [1001, 1000, 500]
    assert [command for _, command in [*first[:-1], *second, *third]] == puts


def test_a_turn_takes_some_megabytes_of_puts(inbox):
    put = commands.Put(0, 0, 60, b"x" * 2**20)
    inbox.put(Client(), *[put] * 6)
    assert [len(inbox.take()), len(inbox.take())] == [4, 2]


def test_what_follows_what_a_client_has_to_wait_for_waits_with_it(inbox):
    client, other = Client(), Client()
    first, second = commands.Put(0, 0, 60, b"1"), commands.Put(0, 0, 60, b"2")
    inbox.put(client, first)
    inbox.put_later(inbox.take(), 0.2)
    inbox.put(client, second, News.HALF_CLOSED)
    inbox.put(other, second)
    assert inbox.take() == [(client, News.HALF_CLOSED), (other, second)]
    assert not inbox  # or the broker would ask for it again and again
    assert inbox.all() == [(client, first), (client, second)]
    assert inbox.later_at < float("inf")
    assert wait_until(inbox.take) == [(client, first), (client, second)]
