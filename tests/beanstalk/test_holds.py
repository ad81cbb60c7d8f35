"""Who holds a job, where others take it and give it."""

import pytest

from django_dbqueue.beanstalk import commands, replies
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.states import Status
from tests.kit.beanstalk_desk import Desk

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def desk():
    return Desk()


def release(key):
    """As an operator does it."""
    assert TubeJob.objects.filter(pk=key).release().changed == 1


def test_who_reserves_what_an_operator_has_released_keeps_it_when_the_first_one_goes(desk):
    one, two = desk.client(), desk.client()
    key = desk.put(one)
    assert desk.reserve(one) == key
    release(key)
    assert desk.reserve(two) == key
    desk.broker.submit(one, News.GONE)
    desk.turn()
    assert desk.ask(two, commands.Touch(key)) == replies.TOUCHED
    assert desk.ask(two, commands.Delete(key)) == replies.DELETED


def test_who_has_lost_a_job_is_not_warned_of_its_end(desk):
    one, two = desk.client(), desk.client()
    key = desk.put(one, ttr=1)
    assert desk.reserve(one) == key
    release(key)
    assert desk.reserve(two) == key
    assert desk.ask(one, commands.ReserveWithTimeout(0)) == replies.TIMED_OUT


@pytest.mark.parametrize(
    "command", [commands.Touch, commands.Delete, lambda key: commands.Bury(key, 0)]
)
def test_what_is_not_found_is_held_no_more(desk, command):
    client = desk.client()
    key = desk.put(client, ttr=1)
    assert desk.reserve(client) == key
    TubeJob.objects.all().delete()
    assert desk.ask(client, command(key)) == replies.NOT_FOUND
    assert desk.ask(client, commands.ReserveWithTimeout(0)) == replies.TIMED_OUT
    assert not desk.broker.state.holds


@pytest.mark.parametrize(
    ("command", "status", "priority"),
    [
        (lambda key: commands.Bury(key, 7), Status.BURIED, 7),
        (lambda key: commands.Release(key, 7, 0), Status.READY, 7),
        (lambda key: commands.Release(key, 7, 60), Status.DELAYED, 7),
        (commands.Touch, Status.READY, 0),
    ],
)
def test_what_a_client_says_right_before_it_goes_is_done(desk, command, status, priority):
    client, other = desk.client(), desk.client()
    key = desk.put(client)
    assert desk.reserve(client) == key
    # Of two that name a job the second waits for another turn.
    desk.broker.submit(other, commands.Touch(key))
    desk.broker.submit(client, command(key))
    desk.broker.submit(client, News.GONE)
    desk.turn()
    row = TubeJob.objects.get(pk=key)
    assert (row.status, row.priority) == (status, priority)
    assert desk.answers[client][-1] != replies.NOT_FOUND
    assert client not in desk.broker.state.clients
