"""Who holds a job, where others take it and give it."""

import time
from contextlib import suppress

import pytest
from django.db.utils import OperationalError

from django_dbqueue.beanstalk import commands, replies
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.joint import Turn
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.beanstalk.state import Client, Hold, State
from django_dbqueue.lifecycle import by_key
from django_dbqueue.states import Status
from tests.kit.beanstalk_desk import Desk
from tests.kit.jobs import start
from tests.kit.waiting import wait_until

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


def holds_all_of(desk, count):
    """A client that has reserved so many jobs."""
    TubeJob.objects.enqueue_many([{"body": b"x"}] * count)
    client = desk.client()
    keys = TubeJob.objects.values_list("pk", flat=True)
    desk.broker.submit(client, *map(commands.ReserveJob, keys))
    desk.turn()
    assert len(client.holds) == count
    return client


def count_ready():
    return TubeJob.objects.filter(status=Status.READY).count()


@pytest.fixture
def ended(monkeypatch):
    """How many claims were ended in each statement."""
    really_end, counts = by_key.end_claims, []

    def end_claims(table, claims, *rest):
        counts.append(len(claims))
        return really_end(table, claims, *rest)

    monkeypatch.setattr(by_key, "end_claims", end_claims)
    return counts


def test_very_many_jobs_of_one_client_come_back_in_parts_between_which_others_are_answered(
    desk, ended
):
    client, other = holds_all_of(desk, 1800), desk.client("a")
    desk.broker.submit(client, News.GONE)
    assert desk.broker.turn() == 0.0
    assert 0 < count_ready() < 1800
    assert desk.put(other)
    wait_until(lambda: desk.turn() or count_ready() == 1801)
    assert (sum(ended), max(ended) <= 500) == (1800, True)
    assert not desk.broker.state.holds


def test_very_many_jobs_whose_ttr_is_over_come_back_in_parts(desk, ended):
    client = holds_all_of(desk, 900)
    for key, hold in client.holds.items():
        hold.ttr = 0
        desk.broker.state.begin_again({key: hold})
    wait_until(lambda: desk.turn() or count_ready() == 900)
    assert max(ended) <= 500
    assert TubeJob.objects.filter(timeouts=1).count() == desk.broker.state.timeouts == 900


def test_an_error_in_a_part_of_what_comes_back_leaves_the_rest_for_later(desk, monkeypatch):
    client, calls = holds_all_of(desk, 900), []
    really_end = by_key.end_claims

    def end_claims(*given):
        calls.append(given)
        if len(calls) == 2:
            raise OperationalError("the database is away")
        return really_end(*given)

    monkeypatch.setattr(by_key, "end_claims", end_claims)
    desk.broker.submit(client, News.GONE)
    with suppress(OperationalError):
        desk.broker.turn()
    assert 0 < count_ready() < 900
    wait_until(lambda: desk.turn() or count_ready() == 900)
    assert not desk.broker.state.holds


def test_a_server_that_ends_gives_back_very_many_jobs_in_parts(desk, ended):
    holds_all_of(desk, 900)
    desk.broker.stop()
    start(desk.broker.run).result()
    assert count_ready() == 900
    assert max(ended) <= 500


def test_a_turn_ends_none_of_the_holds_that_are_to_be_kept(desk):
    client = holds_all_of(desk, 3)
    one, two, three = client.holds
    turn = Turn(desk.broker.table, desk.broker.state, lambda: "nobody")
    turn.end(dict(client.holds), kept=iter([one, two]))
    turn.committed()
    assert [*desk.broker.state.holds] == [one, two]
    assert three not in client.holds


def deleted(state, client):
    for key in range(1, 6000):
        state.hold(key, Hold("owner", client, "a", 86400))
        state.let_go([key])


def touched(state, client):
    state.hold(1, Hold("owner", client, "a", 86400))
    for _ in range(6000):
        state.begin_again({1: client.holds[1]})


@pytest.mark.parametrize("way", [deleted, touched])
def test_of_long_times_to_run_no_more_is_remembered_than_is_held(way):
    state, client = State(), Client()
    short = Hold("owner", client, "a", 0)
    state.hold(0, short)
    way(state, client)
    assert len(state._ends) < 2000
    assert state.next_end() == short.ends_at
    assert state.ended(10) == {0: short}
    state.let_go([0])
    assert len(state.ended(10)) == 0
    for hold in client.holds.values():
        hold.ttr = 0
    state.begin_again(client.holds)
    assert state.ended(10) == client.holds


def test_the_end_of_a_time_to_run_of_what_was_deleted_long_before_wakes_nobody(desk):
    client = desk.client()
    key = desk.put(client, ttr=1)
    assert desk.reserve(client) == key
    assert desk.ask(client, commands.Delete(key)) == replies.DELETED
    assert desk.ask(client, commands.Reserve()) is None
    looks_at = desk.broker._look_at = time.monotonic() + 3600
    wait_until(lambda: desk.turn() or desk.broker.state.next_end() == float("inf"))
    assert desk.broker._look_at == looks_at
