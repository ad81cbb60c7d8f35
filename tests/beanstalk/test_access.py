"""The first line of a connection, without a socket: however its bytes are cut."""

import asyncio
from unittest.mock import Mock

import pytest

from django_dbqueue.beanstalk.access import Access, hand_on
from django_dbqueue.beanstalk.credentials import CredentialFiles, Credentials
from tests.beanstalk.conftest import SECRET

AUTH = f"auth {SECRET}\r\n".encode()
MORE = b"put 0 0 60 5\r\n\r\nab\r\n\r\nreserve\r\n"


class Plain(asyncio.Protocol):
    """Keeps what it is given."""

    def __init__(self, below=None):
        self.found = b""

    def data_received(self, data):
        self.found += data


class Buffered(asyncio.BufferedProtocol):
    """The same, a few bytes at a time."""

    def __init__(self, below=None):
        self.found = b""
        self.buffer = bytearray(7)

    def get_buffer(self, sizehint):
        return self.buffer

    def buffer_updated(self, nbytes):
        self.found += self.buffer[:nbytes]


class Transport(Mock):
    """What is written, and which protocol it has."""

    written = b""
    protocol = None

    def get_extra_info(self, name):
        return ("192.0.2.1", 5)

    def write(self, data):
        self.written += data

    def set_protocol(self, protocol):
        self.protocol = protocol

    def can_write_eof(self):
        return True


async def say(secret_file, make, *parts):
    """The transport after some bytes."""
    access = Access(Credentials(CredentialFiles(secret=str(secret_file))))
    transport, one = Transport(), access.guard(make)()
    one.connection_made(transport)
    for part in parts:
        if transport.protocol is None:
            hand_on(one, part)
        else:
            transport.protocol.found += part
    if transport.protocol is None:
        one.connection_lost(None)
    assert not access._unauthenticated
    return transport


@pytest.mark.parametrize("make", [Plain, Buffered])
def test_what_follows_the_secret_is_handed_on_whole_wherever_it_is_cut(secret_file, make):
    whole = AUTH + MORE
    for cut in range(len(whole) + 1):
        made = asyncio.run(say(secret_file, make, whole[:cut], whole[cut:]))
        assert made.written == b"OK\r\n"
        assert made.protocol.found == MORE


def test_a_wrong_secret_is_denied_wherever_it_is_cut(secret_file):
    whole = AUTH.replace(b"battery", b"pattery") + MORE
    for cut in range(len(whole) + 1):
        made = asyncio.run(say(secret_file, Plain, whole[:cut], whole[cut:]))
        assert (made.written, made.protocol) == (b"DENIED\r\n", None)
        made.write_eof.assert_called_once_with()


def test_another_command_is_denied_at_its_first_other_byte(secret_file):
    for said, reply in ((b"aut", b""), (b"autx", b"DENIED\r\n"), (b"l", b"DENIED\r\n")):
        assert asyncio.run(say(secret_file, Plain, said)).written == reply


def test_a_line_that_is_too_long_is_denied_before_its_end(secret_file):
    for size, reply in ((223, b""), (224, b"DENIED\r\n")):
        said = AUTH[:-2].ljust(size, b"x")
        assert asyncio.run(say(secret_file, Plain, said)).written == reply


def test_who_comes_often_makes_room_and_others_stay(secret_file):
    async def come():
        credentials = Credentials(CredentialFiles(secret=str(secret_file)))
        access = Access(credentials, most=3)
        transports = []
        for address in ("rare", "often", "often", "often", "other", "other", "often"):
            transport = Transport(get_extra_info=None)
            transport.get_extra_info = lambda name, address=address: (address, 5)
            access.guard(Plain)().connection_made(transport)
            transports.append(transport)
        return [bool(one.abort.called) for one in transports], list(
            access._unauthenticated.values()
        )

    dropped, left = asyncio.run(come())
    assert left == ["rare", "other", "often"]
    assert dropped == [False, True, True, True, True, False, False]


def test_little_is_read_of_one_that_is_unauthenticated(secret_file):
    async def come():
        access = Access(Credentials(CredentialFiles(secret=str(secret_file))))
        return access.guard(Plain)()

    one = asyncio.run(come())
    assert isinstance(one, asyncio.BufferedProtocol)
    assert memoryview(one.get_buffer(-1)).nbytes <= 1024


def test_a_handshake_has_the_time_that_was_given_and_any_error_of_it_is_told(caplog):
    given = []

    async def start_tls(*args, **options):
        given.append(options["ssl_handshake_timeout"])
        raise ConnectionResetError("the peer is gone")

    async def come():
        access = Access(Mock(context=object()), seconds=90)
        asyncio.get_running_loop().start_tls = start_tls
        one, transport = access.guard(Plain)(), Transport()
        transport.is_closing.return_value = False
        one.connection_made(transport)
        await one._task
        assert not access._unauthenticated

    asyncio.run(come())
    assert given[0] >= 90
    assert "192.0.2.1 is denied: TLS: the peer is gone" in caplog.text
