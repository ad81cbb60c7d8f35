"""A server that is told to stop finishes what it was told before."""

import asyncio
import threading

import pytest

from django_dbqueue.beanstalk import commands
from django_dbqueue.beanstalk.listening import TCPAddress
from django_dbqueue.beanstalk.management.commands import runbeanstalkd
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.beanstalk.server import Limits, Server
from django_dbqueue.beanstalk.verbs import VERBS
from django_dbqueue.states import Status

pytestmark = pytest.mark.usefixtures("db_rows")
SECONDS = 30


class Gate:
    """The first put waits until it is let through."""

    def __init__(self, monkeypatch):
        self.reached, self.opened = threading.Event(), threading.Event()
        really_put = VERBS[commands.Put]

        def put(turn, given):
            self.reached.set()
            assert self.opened.wait(SECONDS)
            really_put(turn, given)

        monkeypatch.setitem(VERBS, commands.Put, put)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


async def stop_between(gate, said):
    """What those hear who say something, while a put of somebody else's is written."""
    server, address = Server("default", 65535, Limits()), TCPAddress("127.0.0.1", 0)
    await server.start(address)

    async def connect():
        return await asyncio.open_connection("127.0.0.1", address.port)

    clients = [await connect() for _ in range(2)]
    clients[0][1].write(b"reserve-with-timeout 0\r\n")
    assert (await clients[0][0].readline()).startswith((b"RESERVED", b"TIMED_OUT"))
    await clients[0][0].read(3)
    clients[1][1].write(b"put 0 0 60 1\r\nx\r\n")
    await until(gate.reached.is_set)
    clients[0][1].write(said)
    await until(lambda: server.broker._inbox)
    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0)
    gate.opened.set()
    heard = [await reader.read() for reader, _ in clients]
    await stopping
    for _, writer in clients:
        writer.close()
    return heard


def test_what_was_said_before_is_done_and_answered(monkeypatch):
    held = TubeJob.objects.create(body=b"x")
    gate = Gate(monkeypatch)
    talk = stop_between(gate, b"delete %d\r\n" % held.pk)
    deleted, inserted = asyncio.run(asyncio.wait_for(talk, SECONDS))
    assert deleted == b"DELETED\r\n"
    [row] = TubeJob.objects.all()
    assert inserted == b"INSERTED %d\r\n" % row.pk


def test_who_asks_for_a_job_then_gets_none(monkeypatch):
    held = TubeJob.objects.create(body=b"x")
    gate = Gate(monkeypatch)
    TubeJob.objects.create(body=b"x")
    talk = stop_between(gate, b"reserve\r\n")
    nothing, inserted = asyncio.run(asyncio.wait_for(talk, SECONDS))
    assert (nothing, inserted[:8]) == (b"", b"INSERTED")
    assert set(TubeJob.objects.values_list("status", flat=True)) == {Status.READY}
    assert TubeJob.objects.get(pk=held.pk).timeouts == 0


@pytest.mark.any_database
def test_a_silent_database_is_given_up_also_while_the_server_stops(monkeypatch):
    ended = asyncio.Event()
    looks = []

    def watch(seconds):
        looks.append(seconds)
        if len(looks) == 2:
            ended.set()

    monkeypatch.setattr(runbeanstalkd, "watch_statements", watch)
    monkeypatch.setattr(runbeanstalkd, "WATCH_SECONDS", 0.01)

    async def stop():
        await ended.wait()

    asyncio.run(asyncio.wait_for(runbeanstalkd.watched(stop(), 5), SECONDS))
    assert looks[:2] == [5, 5]
