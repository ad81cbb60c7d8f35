"""A client's socket: bytes to commands, and answers to bytes."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from . import commands, replies
from .inbox import News
from .protocol import Refused
from .reading import WAITING_MAX, Said
from .state import Client
from .turns import LINES_AT_ONCE
from .writing import bound

if TYPE_CHECKING:
    from .server import Server

logger = logging.getLogger("django_dbqueue")

# Seconds: a client that has begun a command, or has answers to read, may be silent for so long.
PATIENCE_SECONDS = 60.0
CLOSING_SECONDS = 5.0  # that it has to read the last ones, once it is closed
# Seconds of silence after which the kernel asks whether a peer lives, and in which it must answer.
KEEPALIVE_SECONDS, KEEPALIVE_PROBES = 30, 3


class Connection(asyncio.BufferedProtocol):
    """One client: a command is handed on once those before it are answered, but for puts that came
    together."""

    def __init__(self, server: "Server", below: asyncio.Transport | None = None) -> None:
        """``below``: the transport below TLS, if there is one."""
        self.server = server
        self._below = below
        self.client = Client()
        self.address = ""
        self._said = Said(server.broker.state.job_size_max)
        self._transport: asyncio.Transport
        self._asked = 0  # commands that wait for their answers
        self._is_in_turn = False  # it has said more than one turn of its takes
        self._is_full = False  # the client does not read what it is answered
        self._has_ended = False  # the client says nothing more
        self._hears = True
        self._is_gone = False  # as the broker knows
        self._alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        bound(self._transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        if why := self.server.refusal(self.address):
            logger.warning("a connection of %s is refused: %s", self.address, why)
            self._transport.write(replies.OUT_OF_MEMORY)
            self.address = ""
            self.close()
            return
        _keep_alive(transport.get_extra_info("socket"))
        self.server.addresses[self.address] += 1
        self.server.connections[self.client] = self
        self.server.broker.submit(self.client, News.CONNECTED)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_alarm(needed=False)
        if self.server.connections.pop(self.client, None) is not None:
            self.server.addresses[self.address] -= 1
            if not self.server.addresses[self.address]:
                del self.server.addresses[self.address]
            self._go()

    def _go(self) -> None:
        if not self._is_gone:
            self._is_gone = True
            self.server.broker.submit(self.client, News.GONE)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._said.feed(self.server.buffer[:nbytes])
        if self._is_in_turn:
            self._listen()
        else:
            self._go_on()

    def eof_received(self) -> bool:
        """What came before is answered still, but over TLS, which ends as a whole."""
        self._has_ended = True
        self.server.broker.submit(self.client, News.HALF_CLOSED)
        if not (self._asked or self._is_in_turn):
            self._go_on()
        return self._transport.can_write_eof()

    def pause_writing(self) -> None:
        self._is_full = True
        self._set_alarm(needed=True)

    def resume_writing(self) -> None:
        self._is_full = False
        if self._transport.is_closing():
            return
        self._set_alarm(needed=False)
        if not self._is_in_turn:
            self._go_on()

    def answered(self, given: Sequence[bytes | None]) -> None:
        """None: what became of a command is unknown."""
        self._asked -= len(given)
        known = [reply for reply in given if reply is not None]
        self._transport.write(b"".join(known))
        if len(known) < len(given):
            self.close()
        elif not self._asked:
            self._go_on()

    def close(self) -> None:
        """Who does not read what is left, or over TLS does not say that it closes too, is given a
        little time; what it holds is given back at once."""
        if not self._transport.is_closing():  # that of TLS forgets its socket if it is told twice
            self._transport.close()
        self._set_alarm(needed=True, seconds=CLOSING_SECONDS)
        if self.client in self.server.connections:
            self._go()

    def hear_no_more(self) -> None:
        """What has been handed on is answered still."""
        self._hears = False
        self._transport.pause_reading()

    def abort(self) -> None:
        self._transport.abort()

    def _go_on(self) -> None:
        """Hand on the next command, and answer what is none: some of it."""
        self._is_in_turn = False
        if not self._hears:
            return
        refused: list[bytes] = []
        for _ in range(LINES_AT_ONCE):
            if self._is_waiting or self._transport.is_closing():
                break
            command = self._next()
            if not isinstance(command, Refused):
                self._say(refused)
                self._take(command)
                break
            if command.kind is not None:
                self.server.broker.note_refused(self.client, command)
            refused.append(command.reply)
        else:
            self._is_in_turn = True
            self.server.turns.wait(self._go_on)
        self._say(refused)
        self._listen()

    def _next(self) -> commands.Command | Refused | None:
        command = self._said.next()
        if isinstance(command, commands.Put) and self.server.broker.state.is_draining:
            return Refused(replies.DRAINING, commands.Put)
        return command

    def _say(self, refused: list[bytes]) -> None:
        if refused:
            self._transport.write(b"".join(refused))
            refused.clear()

    def _take(self, command: commands.Command | None) -> None:
        """None: nothing more has come."""
        if command is None:
            if self._has_ended:
                self.close()
        elif isinstance(command, commands.Quit):
            self.close()
        else:
            given = self._said.together_with(command)
            self._asked = len(given)
            self.server.broker.submit(self.client, *given)

    def _listen(self) -> None:
        """Read on, also while a command waits: else nobody would notice that the client is gone."""
        if self._transport.is_closing() or not self._hears:
            return
        if self._has_ended:
            self._set_alarm(needed=self._is_full)
            return
        if (self._is_waiting or self._is_in_turn) and len(self._said) > WAITING_MAX:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
        self._set_alarm(needed=self._is_full or (self._said.is_amid and not self._asked))

    @property
    def _is_waiting(self) -> bool:
        return self._asked > 0 or self._is_full

    def _set_alarm(self, *, needed: bool, seconds: float | None = None) -> None:
        """Close what is silent in the middle of a command, or leaves its answers unread."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if needed:
            patience = PATIENCE_SECONDS if seconds is None else seconds
            ring = partial(self._ring, patience, self._unread())
            self._alarm = self.server.loop.call_later(patience, ring)

    def _ring(self, seconds: float, unread: int) -> None:
        """A client that reads, be it slowly, is not silent."""
        if self._unread() == unread:
            self._transport.abort()
        else:
            self._set_alarm(needed=True, seconds=seconds)

    def _unread(self) -> int:
        """Bytes that the kernel has not taken yet: TLS keeps some, and the socket below others."""
        transports = {self._transport, self._below or self._transport}
        return sum(one.get_write_buffer_size() for one in transports)


def _keep_alive(connection: socket.socket) -> None:
    """Notice a peer that has lost its power, or its way."""
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        for option, value in (
            (socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS),
            (socket.TCP_KEEPINTVL, KEEPALIVE_SECONDS // KEEPALIVE_PROBES),
            (socket.TCP_KEEPCNT, KEEPALIVE_PROBES),
        ):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
