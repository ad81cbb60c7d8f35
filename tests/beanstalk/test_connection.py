"""What a connection does at its end, without a socket and without a broker's turns."""

import asyncio
import socket

import pytest

from django_dbqueue.beanstalk import connection as connections
from django_dbqueue.beanstalk.connection import Connection
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.server import Limits, Server

pytestmark = pytest.mark.any_database


class Transport(asyncio.Transport):
    """Of a peer that reads nothing, and whose connection never ends by itself."""

    def __init__(self):
        super().__init__()
        self.written, self.is_aborted, self._is_closing = b"", False, False
        self.ends = socket.socketpair()

    def get_extra_info(self, name, default=None):
        return self.ends[0] if name == "socket" else ("192.0.2.1", 5)

    def write(self, data):
        self.written += data

    def close(self):
        self._is_closing = True

    def abort(self):
        self._is_closing = self.is_aborted = True

    def is_closing(self):
        return self._is_closing

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def set_read_buffer_limits(self, high=None, low=None):
        self.unheard_max = high

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass

    def can_write_eof(self):
        return True


def at_work(scene, **limits):
    """Run a scene with a server and one connection of it."""

    async def run():
        server, transport = Server("default", 65535, Limits(**limits)), Transport()
        made = Connection(server)
        made.connection_made(transport)
        await scene(server, made, transport)
        for end in transport.ends:
            end.close()

    asyncio.run(asyncio.wait_for(run(), 30))


def hear(connection, said):
    connection.server.buffer[: len(said)] = said
    connection.buffer_updated(len(said))


def news(server):
    return [what for _, what in server.broker._inbox.take()]


def test_who_quits_is_gone_at_once_and_closed_in_time(monkeypatch):
    monkeypatch.setattr(connections, "CLOSING_SECONDS", 0.01)

    async def quit_and_wait(server, made, transport):
        hear(made, b"quit\r\n")
        assert news(server) == [News.CONNECTED, News.GONE]
        while not transport.is_aborted:
            await asyncio.sleep(0.01)
        made.connection_lost(None)
        assert news(server) == []
        assert not server.connections

    at_work(quit_and_wait)


def test_one_connection_too_many_is_closed_in_time_too(monkeypatch):
    monkeypatch.setattr(connections, "CLOSING_SECONDS", 0.01)

    async def wait(server, made, transport):
        assert transport.written == b"OUT_OF_MEMORY\r\n"
        while not transport.is_aborted:
            await asyncio.sleep(0.01)
        assert news(server) == []

    at_work(wait, connections=0)


@pytest.mark.parametrize("says", ["much", "nothing more"])
def test_who_reads_again_has_all_the_time(says):
    async def read_late(server, made, transport):
        hear(made, b"reserve\r\n")
        made.pause_writing()
        assert made._alarm is not None
        if says == "much":
            made._is_in_turn = True
        else:
            made.eof_received()
        made.resume_writing()
        assert made._alarm is None

    at_work(read_late)


def test_little_is_held_of_what_is_not_taken_yet():
    async def look(server, made, transport):
        assert transport.unheard_max <= 16 * 1024

    at_work(look)


def test_a_drained_server_refuses_many_puts_at_once():
    async def put(server, made, transport):
        server.drain()
        hear(made, b"put 0 0 60 1\r\nx\r\n" * 40)
        assert transport.written == b"DRAINING\r\n" * 40
        assert news(server) == [News.CONNECTED]

    at_work(put)
