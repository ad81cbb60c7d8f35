"""What is paused or bounded for workers is so for the clients of the server, too."""

import re

import pytest

from django_dbqueue.beanstalk import broker as brokers
from django_dbqueue.beanstalk import commands, handlers
from django_dbqueue.beanstalk.broker import Broker
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.beanstalk.state import Client
from django_dbqueue.checks.tables import check_settings
from django_dbqueue.models import Queue
from tests.kit.beanstalk_desk import Desk
from tests.kit.bounds import limits
from tests.kit.command_line import fails
from tests.kit.inline_worker import work_off
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def client(monkeypatch):
    """One that waits for a job; what it is told is in ``told``."""
    monkeypatch.setattr(brokers, "REFRESH_SECONDS", 0.0)
    told = []
    broker, client = Broker("default", lambda _, reply: told.append(reply)), Client()
    broker.state.welcome(client)
    yield lambda command: broker.submit(client, command), broker.turn, told
    client.is_gone = True
    broker.turn()


@pytest.mark.parametrize(
    ("pause", "resume"),
    [
        (Queue.objects.pause_everything, Queue.objects.resume_everything),
        (lambda: TubeJob.objects.pause("*"), lambda: TubeJob.objects.resume("*")),
        (lambda: TubeJob.objects.pause("default"), lambda: TubeJob.objects.resume("default")),
    ],
    ids=["everything", "the table", "the tube"],
)
def test_nothing_is_reserved_from_what_is_paused(client, pause, resume):
    submit, turn, told = client
    job = TubeJob.objects.create(body=b"x")
    pause()
    submit(commands.ReserveWithTimeout(60))
    for _ in range(3):
        turn()
    assert told == []
    resume()
    wait_until(lambda: turn() is not None and told)
    assert told == [b"RESERVED %d 1\r\nx\r\n" % job.pk]


def test_a_pause_of_everything_is_told_of_a_tube(client):
    submit, turn, told = client
    TubeJob.objects.create(body=b"x")
    Queue.objects.pause_everything(seconds=60)
    submit(commands.StatsTube("default"))
    turn()
    assert re.search(rb"\npause: (60|[45].)\n", told[0])  # what is left of it


def test_who_puts_into_a_full_tube_is_told_and_the_server_goes_on(client):
    submit, turn, told = client
    with limits("dbqueue_beanstalk.tubejob", max_length=1):
        submit(commands.Put(1, 0, 60, b"a"))
        turn()
        submit(commands.Put(1, 0, 60, b"b"))
        turn()
    assert [one.split()[0] for one in told] == [b"INSERTED", b"OUT_OF_MEMORY"]
    assert TubeJob.objects.count() == 1


def test_tubes_are_watched_whose_jobs_no_worker_can_run():
    TubeJob.objects.create(queue="remote", body=b"x")
    _, why = fails(1, "monitor", "dbqueue_beanstalk.TubeJob", "--max", 1)
    assert "dbqueue_beanstalk.tubejob:remote: a job waits" in why


@pytest.fixture
def ran(monkeypatch):
    """The bodies that workers have run, of the tube "orders"."""
    monkeypatch.setattr(handlers, "_HANDLERS", {})
    found = []
    handlers.tube("orders")(lambda job: found.append(bytes(job.body)))
    return found


@pytest.mark.parametrize("table", ["dbqueue_beanstalk.tubejob", "DBQueue_Beanstalk.TubeJob:orders"])
def test_a_tube_has_no_lanes_and_a_check_says_so(ran, table):
    desk = Desk()
    with limits(table, rate="50/s", rate_key="{priority}"):
        [error] = check_settings()
        client = desk.client("orders")
        keys = [desk.put(client, body, priority=5) for body in (b"order 7", b"order 8")]
        assert {job.queue for job in TubeJob.objects.all()} == {"orders"}
        assert desk.reserve(client) == keys[0]
        work_off("dbqueue_beanstalk.tubejob")
    assert ran == [b"order 8"]
    assert error.id == "dbqueue.E018"
    assert error.msg.startswith(f"DBQUEUE['QUEUES']['{table}'] has rate_key = '{{priority}}': no")


def test_a_rate_bounds_workers_and_not_clients(ran):
    desk = Desk()
    with limits("dbqueue_beanstalk.tubejob:orders", rate="1/h"):
        assert check_settings() == []
        client = desk.client("orders")
        for _ in range(5):
            desk.put(client)
        work_off("dbqueue_beanstalk.tubejob")
        assert ran == [b"x"]
        assert all(desk.reserve(client) for _ in range(4))
