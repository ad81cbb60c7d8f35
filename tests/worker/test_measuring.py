"""What an agent tells its supervisor of the jobs that wait."""

import time
from contextlib import closing

import pytest
from django.db import connection

from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.rates import Rate
from django_dbqueue.models import Queue, RateBucket
from django_dbqueue.worker import measuring
from django_dbqueue.worker.channel import Backlog
from django_dbqueue.worker.scaling_options import ScalingOptions
from tests.kit.agents import AgentHere
from tests.kit.bounds import limits
from tests.kit.connections import other_connection
from tests.kit.jobs import claimed, overwrite, table_locked
from tests.kit.waiting import wait_until
from tests.queueapp.models import Mailed, Note

pytestmark = pytest.mark.usefixtures("db_rows")
needs_a_server = pytest.mark.skipif(connection.vendor == "sqlite", reason="it is a file")


@pytest.fixture
def agent(monkeypatch):
    """One of a worker that may have two processes; it measures in each turn."""
    monkeypatch.setattr(measuring, "MEASURE_SECONDS", 0.0)
    monkeypatch.setattr(measuring, "SHARE_MAX", float("inf"))
    return AgentHere("queueapp.Note", "queueapp.Mailed:fast", scaling=ScalingOptions(most=2))


def measured(agent):
    [backlog] = [said for said in agent.turn() if isinstance(said, Backlog)]
    return backlog


def waiting(agent):
    return {str(one.name): (one.jobs, one.seconds) for one in measured(agent).waiting}


def test_it_counts_what_is_ready_in_each_queue_that_is_served(agent):
    Note.objects.bulk_create([Note(queue=name) for name in "aab"])
    Note.objects.enqueue(queue="later", delay=60)
    claimed(Note, queue="claimed")
    Queue.objects.pause(Note._meta.db_table, "paused", None, "")
    Note.objects.create(queue="paused")
    found = waiting(agent)
    assert {name: jobs for name, (jobs, _) in found.items()} == {
        "queueapp.note:a": 2,
        "queueapp.note:b": 1,
    }


def test_it_tells_for_how_long_the_oldest_job_has_waited_whatever_its_priority(agent):
    overwrite(Note.objects.create(priority=5), created_at=DbNow(plus=-14))
    overwrite(Note.objects.create(priority=7), created_at=DbNow(plus=-70))
    assert waiting(agent)["queueapp.note:default"][1] == pytest.approx(70, abs=30)


def test_a_job_that_was_delayed_or_tried_again_has_not_waited_all_the_time(agent):
    """It has waited no longer than the queue has had ready jobs."""
    assert waiting(agent) == {}
    overwrite(Note.objects.create(attempts=2), created_at=DbNow(plus=-7000))
    assert waiting(agent)["queueapp.note:default"][1] < 100


def test_of_very_many_some_are_counted(agent, monkeypatch):
    monkeypatch.setattr(measuring, "COUNTED_MAX", 3)
    Note.objects.bulk_create([Note(queue=name) for name in "aaaab"])
    assert {name: jobs for name, (jobs, _) in waiting(agent).items()} == {
        "queueapp.note:a": 3,
        "queueapp.note:b": 1,
    }


def test_with_force_it_counts_in_spite_of_a_pause_of_everything(agent):
    Note.objects.create()
    Queue.objects.pause_everything()
    assert waiting(agent) == {}
    agent = AgentHere("queueapp.Note", force=True, scaling=ScalingOptions(most=2))
    assert [*waiting(agent)] == ["queueapp.note:default"]


def test_queues_that_are_named_by_a_pattern_are_counted():
    agent = AgentHere("queueapp.Note:mail-*", scaling=ScalingOptions(most=2))
    Note.objects.bulk_create([Note(queue=name) for name in ("mail-a", "mail-b", "other")])
    assert [*waiting(agent)] == ["queueapp.note:mail-a", "queueapp.note:mail-b"]


def test_the_lanes_of_a_queue_are_counted_with_it_and_paused_with_it(agent):
    with limits(rate="1000/s", rate_key="{text}"):
        agent = AgentHere("queueapp.Note:default", scaling=ScalingOptions(most=2))
        Note.objects.create(text="smtp")
        assert [*waiting(agent)] == ["queueapp.note:default@smtp"]
        Note.objects.pause("default")
        assert waiting(agent) == {}


def test_jobs_that_a_rate_keeps_waiting_are_no_reason_for_more_workers(agent):
    with limits(rate="2/h"):
        Note.objects.create()
        assert [*waiting(agent)] == ["queueapp.note:default"]
        buckets, rates = RateBucket.objects, [Rate(2, "hour")]
        assert buckets.take(Note._meta.db_table, "default", rates, 2) == 0
        assert waiting(agent) == {}


def test_tokens_that_nobody_has_used_keep_no_job_waiting(agent):
    """A worker that leases all of them may be too slow to use them."""
    with limits(rate="2/h"):
        Note.objects.create()
        table, rates = Note._meta.db_table, [Rate(2, "hour")]
        RateBucket.objects.change(
            *(table, "default", rates),
            lambda bucket, clock: bucket.take("w", clock.now + 5, [clock.now] * 2),
        )
        assert RateBucket.objects.peek(table, "default", rates).is_empty
        assert [*waiting(agent)] == ["queueapp.note:default"]


@needs_a_server
def test_what_cannot_be_read_for_now_holds_up_the_figures_of_no_other_table(agent):
    Note.objects.create()
    Mailed.objects.create(queue="fast")
    with table_locked(Mailed):
        assert [*waiting(agent)] == ["queueapp.note:default"]
    assert [*waiting(agent)] == ["queueapp.note:default"]


def test_who_has_a_fixed_number_of_processes_measures_nothing():
    agent = AgentHere()
    Note.objects.create()
    assert not [said for said in agent.turn() if isinstance(said, Backlog)]


def test_figures_that_are_not_renewed_are_not_believed_for_long(agent):
    assert 0 < measured(agent).good_until - time.monotonic() <= measuring.PATIENCE_SECONDS


@pytest.fixture
def limit():
    """Of the account, or of the database, on a server; as it was afterwards."""
    name = connection.settings_dict["NAME"]
    set_to = {
        "mysql": "ALTER USER CURRENT_USER() WITH MAX_USER_CONNECTIONS {}",
        "postgresql": f'ALTER DATABASE "{name}" CONNECTION LIMIT {{}}',
    }[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(set_to.format(60))
    connection.close()  # a session of MariaDB's has the limit with which it began
    yield 60
    with connection.cursor() as cursor:
        cursor.execute(set_to.format({"mysql": 0, "postgresql": -1}[connection.vendor]))


@needs_a_server
def test_connections_that_are_open_are_told_from_those_that_may_be(agent):
    room = measured(agent).room
    assert room.setting == "max_connections"
    assert 0 < room.used < room.limit
    assert room.free == room.limit - room.used


@needs_a_server
def test_a_limit_that_leaves_fewer_connections_counts(agent, limit):
    room = measured(agent).room
    assert room.limit == limit
    assert room.setting in {"max_user_connections", "the database's CONNECTION LIMIT"}


@needs_a_server
def test_one_connection_more_is_counted(agent, limit):
    def is_counted():
        """Also where others leave in that moment, it is in one of these looks."""
        before = measured(agent).room.used
        with closing(other_connection()) as other:
            other.ensure_connection()
            return measured(agent).room.used > before

    wait_until(is_counted)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="the others count connections")
def test_a_file_takes_any_number_of_connections(agent):
    assert measured(agent).room is None
