"""Connections that have not shown yet who they are, by TLS and a shared secret."""

import asyncio
import logging
import ssl
import time
from asyncio import sslproto
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias, cast

from .credentials import AUTH, Credentials, reason
from .protocol import CRLF, LINE_MAX

logger = logging.getLogger("django_dbqueue")

OK, DENIED = b"OK\r\n", b"DENIED\r\n"
SAID_AT_ONCE = 1024  # bytes that are read of one that is unauthenticated
TLS_BUFFER = 32 * 1024  # bytes of a connection: two of the largest records
AUTHENTICATION_SECONDS, UNAUTHENTICATED_MAX = 10.0, 100
HANDSHAKE_MORE = 5.0  # seconds beyond that, for the event loop
LOG_LINES = 10  # in a second, about who is denied: anybody can cause one

Protocol: TypeAlias = asyncio.Protocol | asyncio.BufferedProtocol
MakeProtocol: TypeAlias = Callable[[], Protocol]
MakeAdmitted: TypeAlias = Callable[[asyncio.Transport], Protocol]  # given what is below TLS


class Access:
    """Who is unauthenticated: never more than so many, and none for longer than so many seconds.

    One more costs the one its place that has been there longest, of the address that has most of
    them: strangers cannot keep out others.
    """

    def __init__(
        self,
        credentials: Credentials,
        seconds: float = AUTHENTICATION_SECONDS,
        most: int = UNAUTHENTICATED_MAX,
    ) -> None:
        self.credentials = credentials
        self.seconds = seconds
        self.most = most
        self._unauthenticated: dict[Unauthenticated, str] = {}  # their addresses; the oldest first
        # One for all: what is read is taken out of it at once.
        self.buffer = memoryview(bytearray(SAID_AT_ONCE))
        # Else it is 256 KiB for each of what may be ten thousand connections.
        sslproto.SSLProtocol.max_size = TLS_BUFFER
        self._log_second = 0
        self._logged = self._unlogged = 0

    def guard(self, make: MakeAdmitted) -> "Callable[[], Unauthenticated]":
        """The same protocol, for those alone who show who they are."""
        return lambda: Unauthenticated(self, make)

    def add(self, one: "Unauthenticated", address: str) -> None:
        self._unauthenticated[one] = address
        if len(self._unauthenticated) > self.most:
            [(crowded, _)] = Counter(self._unauthenticated.values()).most_common(1)
            found = (other for other, at in self._unauthenticated.items() if at == crowded)
            next(found).drop(f"{self.most} connections are unauthenticated")

    def has(self, one: "Unauthenticated") -> bool:
        return one in self._unauthenticated

    def remove(self, one: "Unauthenticated") -> None:
        self._unauthenticated.pop(one, None)

    def close(self) -> None:
        for one in list(self._unauthenticated):
            one.abort()

    def note_denied(self, address: str, why: str) -> None:
        second = int(time.monotonic())
        if second != self._log_second:
            self._log_second, self._logged = second, 0
        if self._logged >= LOG_LINES:
            self._unlogged += 1
            return
        others = f"; {self._unlogged} others were denied before it" if self._unlogged else ""
        logger.warning("a connection of %s is denied: %s%s", address or "this host", why, others)
        self._logged, self._unlogged = self._logged + 1, 0


class Unauthenticated(asyncio.BufferedProtocol):
    """A connection up to its secret, or where none is asked for, up to its certificate."""

    def __init__(self, access: Access, make: MakeAdmitted) -> None:
        self.access = access
        self.address = ""
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._said = bytearray()
        self._is_denied = False
        self._socket: asyncio.Transport  # below TLS
        self._transport: asyncio.Transport | None = None  # once it can be spoken with
        self._alarm: asyncio.TimerHandle
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        late = f"it has not shown who it is within {self.access.seconds:g} s"
        self._alarm = self._loop.call_later(self.access.seconds, self.drop, late)
        self.access.add(self, self.address)
        context = self.access.credentials.context
        if context is None:
            self._transport = self._socket
        elif not self._socket.is_closing():
            self._socket.pause_reading()
            self._task = self._loop.create_task(self._begin_tls(context))

    async def _begin_tls(self, context: ssl.SSLContext) -> None:
        try:
            # None where the connection was lost meanwhile.
            found = await self._loop.start_tls(
                *(self._socket, self, context),
                server_side=True,
                # The alarm ends it, and says why.
                ssl_handshake_timeout=self.access.seconds + HANDSHAKE_MORE,
            )
        except OSError as error:
            if self.access.has(self):
                self.access.note_denied(self.address, f"TLS: {reason(error)}")
            self._leave()
            return
        if found is None or found.is_closing():
            self._leave()
            return
        self._transport = found
        self._judge()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.access.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._is_denied:
            self._said += self.access.buffer[:nbytes]
            self._judge()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def drop(self, why: str) -> None:
        if not self._is_denied:
            self.access.note_denied(self.address, why)
        self.abort()

    def abort(self) -> None:
        self._leave()
        self._socket.abort()

    def _leave(self) -> None:
        self._alarm.cancel()
        self.access.remove(self)

    def _judge(self) -> None:
        if self._transport is None:
            return  # what comes right behind the handshake
        if not self.access.credentials.wants_secret:
            self._admit(b"", self._said)
            return
        line, end, rest = self._said.partition(CRLF)
        if not self._said.startswith(AUTH[: len(self._said)]):
            self._deny("its first command is not auth")
        elif end and self.access.credentials.is_secret(bytes(line[len(AUTH) :])):
            self._admit(OK, rest)
        elif end or len(self._said) >= LINE_MAX:
            self._deny("a wrong secret")

    def _admit(self, reply: bytes, rest: bytearray) -> None:
        transport = cast(asyncio.Transport, self._transport)
        self._leave()
        protocol = self._make(self._socket)
        transport.set_protocol(protocol)
        transport.write(reply)
        protocol.connection_made(transport)
        hand_on(protocol, bytes(rest))

    def _deny(self, why: str) -> None:
        """Its place is taken until it is gone, or its time is over."""
        transport = cast(asyncio.Transport, self._transport)
        self.access.note_denied(self.address, why)
        self._is_denied = True
        self._said.clear()
        transport.write(DENIED)
        # Closed with bytes unread, a socket takes back what was written last.
        if transport.can_write_eof():
            transport.write_eof()
        else:
            transport.close()


def hand_on(protocol: Protocol, data: bytes) -> None:
    """As a transport gives it what it has read."""
    if isinstance(protocol, asyncio.BufferedProtocol):
        while data:
            buffer = memoryview(protocol.get_buffer(len(data)))
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            protocol.buffer_updated(count)
            data = data[count:]
    elif data:
        protocol.data_received(data)
