"""A proxy on loopback in front of a database server: it loses, delays and cuts what passes.

What it has swallowed is lost for good, and a connection that has lost something stays silent when
all is well again, as behind a firewall that has forgotten it.
"""

import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Self

CHUNK_BYTES = 65_536
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST, and keep nothing to be sent


class Way(Enum):
    """What becomes of all connections, those that are open and those to come."""

    PASS = auto()
    SWALLOW = auto()  # nothing arrives, on either side
    MUTE = auto()  # the server hears, and is not heard
    CUT = auto()  # in the middle of an answer the connection is reset
    DELAY = auto()  # each way
    HALF_OPEN = auto()  # the server's side is closed, the client's side stays open
    REFUSE = auto()  # all are reset, and nobody listens


@dataclass(frozen=True)
class Fault:
    """A way, with the bytes of an answer that still arrive, or the seconds of a delay."""

    way: Way
    arrives: int = 3
    seconds: float = 0.0


ALL_WELL = Fault(Way.PASS)


class Link:
    """A connection to the proxy, and the one that it has made to the server, if any."""

    def __init__(self, proxy: "Proxy", client: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.server: socket.socket | None = None
        # A connection that has lost something stays silent.
        self.is_deaf = proxy.fault.way in {Way.SWALLOW, Way.HALF_OPEN}
        if not self.is_deaf:
            self.server = proxy.connect()

    def start(self) -> None:
        for pump in (self._requests, self._answers):
            threading.Thread(target=pump, daemon=True).start()

    def _requests(self) -> None:
        """From the client, to its end."""
        with suppress(OSError):
            while data := self.client.recv(CHUNK_BYTES):
                if self._passes(Way.SWALLOW) and self.server is not None:
                    self.server.sendall(data)
        self.close()

    def _answers(self) -> None:
        data = b"?"
        with suppress(OSError):
            while self.server is not None and (data := self.server.recv(CHUNK_BYTES)):
                if not self._passes(Way.SWALLOW, Way.MUTE):
                    continue
                fault = self.proxy.fault
                if fault.way is Way.CUT:
                    self.client.sendall(data[: fault.arrives])
                    self.reset()
                else:
                    self.client.sendall(data)
        if not self.is_deaf and self.proxy.fault.way in {Way.PASS, Way.DELAY}:
            self.close()

    def _passes(self, *ways: Way) -> bool:
        """Whether what has come is handed on, after the delay."""
        fault = self.proxy.fault
        if fault.way is Way.DELAY:
            self.proxy.closed.wait(fault.seconds)
        self.is_deaf = self.is_deaf or fault.way in ways
        return not self.is_deaf

    def leave_server(self) -> None:
        self.is_deaf = True
        if self.server is not None:
            _shut(self.server)

    def reset(self) -> None:
        with suppress(OSError):
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            # Its reader would keep it open, and a full shutdown would end it politely.
            self.client.shutdown(socket.SHUT_RD)
            self.client.close()
        self.close()

    def close(self) -> None:
        self.proxy.links.discard(self)
        for end in (self.server, self.client):
            if end is not None:
                _shut(end)
                end.close()


def _shut(end: socket.socket) -> None:
    """Also for a thread that reads from it."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens on a port of 127.0.0.1, and hands all on to a server until ``fault`` says otherwise.

    ``server``: the path of a unix socket, or host and port.
    """

    def __init__(self, server: str | tuple[str, int]) -> None:
        self.server = server
        self.fault = ALL_WELL
        self.closed = threading.Event()
        self.links: set[Link] = set()
        self._listener: socket.socket | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self._refuse()

    def be(self, way: Way, arrives: int = 3, seconds: float = 0.0) -> None:
        """From here on, with what is open and with what comes."""
        before, self.fault = self.fault, Fault(way, arrives, seconds)
        if way is Way.REFUSE:
            self._refuse()
        elif before.way is Way.REFUSE:
            self._listen()
        if way is Way.HALF_OPEN:
            for link in list(self.links):
                link.leave_server()

    def connect(self) -> socket.socket:
        """To the server."""
        if not isinstance(self.server, str):
            return socket.create_connection(self.server)
        made = socket.socket(socket.AF_UNIX)
        made.connect(self.server)
        return made

    def _listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=100)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # it was closed
            try:
                link = Link(self, client)
            except OSError:
                client.close()  # the server is away
                continue
            self.links.add(link)
            link.start()

    def _refuse(self) -> None:
        if self._listener is not None:
            _shut(self._listener)
            self._listener.close()
        for link in list(self.links):
            link.reset()
