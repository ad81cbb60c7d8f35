"""What a connection does at its end, and with who reads slowly, without a broker's turns."""

import asyncio
import socket
import time

import pytest

from django_dbqueue.beanstalk import connection as connections
from django_dbqueue.beanstalk.access import Access
from django_dbqueue.beanstalk.connection import Connection
from django_dbqueue.beanstalk.credentials import CredentialFiles, Credentials
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.listening import TCPAddress
from django_dbqueue.beanstalk.server import Limits, Server
from tests.kit.certificates import client_context

pytestmark = pytest.mark.any_database
ANSWER = b"x" * 4_000_000
AT_ONCE, PAUSE = 64 * 1024, 0.025  # bytes that a slow client reads, and seconds between two reads


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

    def get_write_buffer_size(self):
        return len(self.written)

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


@pytest.mark.parametrize(
    "begun",
    [b"sta", b"put 0 0 60 5\r\n", b"put 0 0 60 5\r\nx", b"put 0 0 60 99999\r\n", b"x" * 300],
)
def test_who_is_silent_in_the_middle_of_a_command_is_closed_in_time(begun, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.01)

    async def wait(server, made, transport):
        hear(made, begun)
        while not transport.is_aborted:
            await asyncio.sleep(0.01)

    at_work(wait)


def test_who_is_silent_between_two_commands_is_left_in_peace():
    async def look(server, made, transport):
        assert made._alarm is None
        for said in (b"x\r\nput 0 0 60 70000\r\n", *[b"x" * 10_000] * 7, b"\r\n"):
            hear(made, said)
        assert transport.written == b"UNKNOWN_COMMAND\r\nJOB_TOO_BIG\r\n"
        assert made._alarm is None

    at_work(look)


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


class Answering:
    """A server whose clients are each told ``ANSWER`` for what they say."""

    def __init__(self, context=None):
        self.context = context

    async def __aenter__(self):
        self.server, address = Server("default", 65535, Limits()), TCPAddress("127.0.0.1", 0)
        self.made = []
        make = self._make if self.context is None else Access(self.context).guard(self._make)
        self.listener = await address.listen(make)
        self.task = asyncio.create_task(self._answer())
        return address.port

    def _make(self, below=None):
        self.made.append(Connection(self.server, below))
        return self.made[-1]

    async def _answer(self):
        while True:
            for one in self.made:
                if one._asked:
                    one.answered([ANSWER])
            await asyncio.sleep(0.01)

    async def __aexit__(self, *_):
        self.task.cancel()
        self.listener.close()
        for one in self.made:
            one.abort()
        await asyncio.sleep(0.05)


def read_slowly(port, context, most):
    """The bytes that have come of two answers, and the connection."""
    said = socket.socket()
    said.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, AT_ONCE)
    said.settimeout(30)
    said.connect(("127.0.0.1", port))
    if context is not None:
        said = context.wrap_socket(said, server_hostname="127.0.0.1")
    said.sendall(b"reserve\r\nreserve\r\n")
    size = 0
    while size < most and (data := said.recv(AT_ONCE)):
        size += len(data)
        time.sleep(PAUSE * len(data) / AT_ONCE)
    return size, said


@pytest.fixture(params=["TCP", "TLS"])
def contexts(request):
    """Of the server, and of its client."""
    if request.param == "TCP":
        return None, None
    server, ca = (request.getfixturevalue(name) for name in ("server_certificate", "ca"))
    files = CredentialFiles(certificate=server.path, key=server.key)
    return Credentials(files), client_context(ca)


def test_who_reads_slowly_is_not_silent(contexts, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 1.5)

    async def read():
        async with Answering(contexts[0]) as port:
            whole = 2 * len(ANSWER)
            size, said = await asyncio.to_thread(read_slowly, port, contexts[1], whole)
            said.close()
            assert size == whole

    asyncio.run(asyncio.wait_for(read(), 60))


def test_who_has_read_slowly_and_reads_no_more_is_closed(contexts, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.8)
    answering = Answering(contexts[0])

    async def read():
        async with answering as port:
            _, said = await asyncio.to_thread(read_slowly, port, contexts[1], len(ANSWER) // 2)
            while answering.server.connections:
                await asyncio.sleep(0.01)
            said.close()

    asyncio.run(asyncio.wait_for(read(), 30))


def test_a_connection_that_is_closed_twice_over_tls_still_ends(server_certificate, ca, monkeypatch):
    monkeypatch.setattr(connections, "CLOSING_SECONDS", 0.2)
    files = CredentialFiles(certificate=server_certificate.path, key=server_certificate.key)
    answering = Answering(Credentials(files))

    async def close():
        async with answering as port:
            _, said = await asyncio.to_thread(read_slowly, port, client_context(ca), 1)
            answering.made[0].close()
            answering.made[0].close()
            while answering.server.connections:
                await asyncio.sleep(0.01)
            said.close()

    asyncio.run(asyncio.wait_for(close(), 30))
