"""What clients are told of jobs, tubes and the server, and when."""

import pytest
from django.db import DataError

from django_dbqueue.beanstalk import broker as brokers
from django_dbqueue.beanstalk import commands, replies, rows
from django_dbqueue.beanstalk import state as states_of_server
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.beanstalk.state import Client
from tests.kit.beanstalk_desk import Desk
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")
U32 = 2**32 - 1


@pytest.fixture
def desk():
    return Desk()


def stats_of(desk, client, command):
    answer = desk.ask(client, command).decode()
    return dict(line.split(": ") for line in answer.splitlines() if ": " in line)


def is_u32_some_seconds_ago(told):
    return U32 - 60 < int(told) < U32


def test_numbers_beyond_what_a_row_can_say_are_told_as_they_were_given(desk):
    client = desk.client("a")
    key = desk.put(client, ttr=U32)
    assert desk.reserve(client) == key
    for command in (None, commands.Touch(key)):
        if command is not None:
            desk.ask(client, command)
        assert is_u32_some_seconds_ago(stats_of(desk, client, commands.StatsJob(key))["time-left"])
    assert desk.ask(client, commands.PauseTube("a", U32)) == replies.PAUSED
    desk.broker._refresh_at = 0.0
    stats = stats_of(desk, client, commands.StatsTube("a"))
    assert stats["pause"] == str(U32)
    assert is_u32_some_seconds_ago(stats["pause-time-left"])
    assert desk.ask(client, commands.Release(key, U32, U32)) == replies.RELEASED
    assert is_u32_some_seconds_ago(stats_of(desk, client, commands.StatsJob(key))["time-left"])


def test_a_pause_of_another_server_is_told_as_it_is(desk):
    other = Desk()
    one, two = desk.client("a"), other.client("a")
    desk.ask(one, commands.PauseTube("a", 1000))
    other.ask(two, commands.PauseTube("a", 60))
    desk.broker._refresh_at = 0.0
    stats = stats_of(desk, one, commands.StatsTube("a"))
    assert 30 < int(stats["pause"]) <= 60  # of which some are over
    assert int(stats["pause-time-left"]) < 60


def test_what_is_due_is_seen_at_once_and_not_at_the_next_look(desk, monkeypatch):
    client = desk.client("a")
    released = desk.put(client)
    assert desk.reserve(client) == released
    desk.ask(client, commands.Release(released, 0, 1))
    desk.put(client, delay=1)
    desk.ask(client, commands.PauseTube("a", 1))
    monkeypatch.setattr(brokers, "REFRESH_SECONDS", 3600.0)
    desk.broker._refresh_at = 0.0
    desk.turn()

    def is_all_over():
        stats = stats_of(desk, client, commands.StatsTube("a"))
        names = ("current-jobs-ready", "current-jobs-delayed", "pause", "pause-time-left")
        return [stats[name] for name in names] == ["2", "0", "0", "0"]

    wait_until(is_all_over)


def test_who_waits_gets_a_job_as_soon_as_a_pause_ends(desk, monkeypatch):
    client = desk.client("a")
    desk.put(client)
    desk.ask(client, commands.PauseTube("a", 2))
    monkeypatch.setattr(brokers, "REFRESH_SECONDS", 3600.0)
    for name in ("LOOK_SECONDS", "LOOK_SECONDS_MAX"):
        monkeypatch.setattr(brokers, name, 3600.0)
    desk.broker._refresh_at = 0.0
    assert desk.ask(client, commands.Reserve()) is None
    assert desk.broker.turn() < 2.1
    assert desk.hears(client, b"RESERVED")


def listed(desk, client):
    return [line[2:] for line in desk.ask(client, commands.ListTubes()).decode().splitlines()[2:-1]]


def test_tubes_are_listed_as_they_were_made(desk):
    TubeJob.objects.enqueue(queue="f", body=b"made by Django")
    client, other = desk.client(), desk.client()
    for name in "wuza":
        desk.ask(client, commands.Watch(name))
    desk.ask(client, commands.Use("k"))
    assert listed(desk, client) == ["default", *"wuzak", "f"]
    desk.ask(client, commands.Ignore("u"))
    desk.ask(other, commands.Use("u"))
    assert listed(desk, client) == ["default", *"wzak", "f", "u"]


def test_tubes_that_have_ceased_to_exist_are_forgotten(desk, monkeypatch):
    monkeypatch.setattr(states_of_server, "NAMES_MAX", 10)
    desk, client = Desk(), Client()
    desk.broker.submit(client, News.CONNECTED)
    for number in range(200):
        desk.ask(client, commands.Use(f"t{number}"))
        if number % 20 == 0:
            desk.ask(client, commands.Delete(desk.put(client)))
    assert len(desk.broker.state.order) < 30
    assert len(desk.broker.state.tubes) < 30


def test_a_question_that_fails_is_no_matter_for_the_others(desk, monkeypatch):
    monkeypatch.setattr(rows, "counts", lambda *_: 1 // len([]))
    client = desk.client()
    with pytest.raises(ZeroDivisionError):  # a fault of ours: the server ends, and says so
        desk.ask(client, commands.Stats())
    refused = DataError("numeric value out of range")
    monkeypatch.setattr(rows, "counts", lambda *_: (_ for _ in ()).throw(refused))
    assert desk.ask(desk.client(), commands.Stats()) == replies.INTERNAL_ERROR
    assert desk.reserve(desk.client()) is None
