"""Listens, keeps the connections, and runs the broker in a thread."""

import asyncio
import logging
import sys
import threading
from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from django.db import connections

from .access import Access
from .broker import Broker
from .connection import Connection
from .listening import Address
from .reading import READ_AT_ONCE
from .state import Client
from .turns import Turns

logger = logging.getLogger("django_dbqueue")

# After which the loop and the broker leave the interpreter to each other, where both want it.
SWITCH_SECONDS = 0.0005
# Seconds in which clients get their last answers where the server stops, and of each nap in there.
FLUSH_SECONDS, FLUSH_NAP = 1.0, 0.02


@dataclass(frozen=True)
class Limits:
    """Of connections: in all, and from one address."""

    connections: int = 10_000
    per_address: int = 10_000


class Server:
    """All of it."""

    def __init__(self, using: str, job_size_max: int, limits: Limits) -> None:
        self.limits = limits
        self.broker = Broker(using, self._answer, job_size_max)
        self.connections: dict[Client, Connection] = {}
        self.addresses: Counter[str] = Counter()
        self.loop = asyncio.get_running_loop()
        self.turns = Turns(self.loop)
        # One for all: what is read is taken out of it at once.
        self.buffer = memoryview(bytearray(READ_AT_ONCE))
        self._listener: asyncio.Server | None = None
        self._answers: deque[tuple[Client, bytes | None]] = deque()
        self._lock = threading.Lock()
        self.is_over = asyncio.Event()  # the broker has ended, by itself too
        self._thread = threading.Thread(target=self._run_broker, name="broker")

    async def start(self, address: Address, access: Access | None = None) -> None:
        """Listen. ``OSError`` where the address is taken."""

        def make(below: asyncio.Transport | None = None) -> Connection:
            return Connection(self, below)

        self._listener = await address.listen(make if access is None else access.guard(make))
        self._thread.start()

    def _run_broker(self) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            self.broker.run()
        finally:
            connections.close_all()  # this thread's
            self.loop.call_soon_threadsafe(self.is_over.set)

    async def stop(self) -> None:
        """Do and answer what clients have said, give back what they hold, and close all."""
        if self._listener is not None:
            self._listener.close()
        for connection in self.connections.values():
            connection.hear_no_more()
        self.broker.stop()
        await asyncio.to_thread(self._thread.join)
        self._pass_on()
        for connection in list(self.connections.values()):
            connection.close()
        end = self.loop.time() + FLUSH_SECONDS
        while self.connections and self.loop.time() < end:
            await asyncio.sleep(FLUSH_NAP)
        for connection in list(self.connections.values()):
            connection.abort()

    def drain(self) -> None:
        """From here on no job comes in."""
        self.broker.state.is_draining = True

    def give_nothing(self, is_asked: bool) -> None:
        """Whether reserves wait, as if all tubes were paused. From any thread."""
        self.broker.state.gives_nothing = is_asked

    def refusal(self, address: str) -> str:
        """Why a new connection is not taken, or ''."""
        if len(self.connections) >= self.limits.connections:
            return f"{self.limits.connections} connections are open"
        if address and self.addresses[address] >= self.limits.per_address:
            return f"{self.limits.per_address} connections of {address} are open"
        return ""

    def _answer(self, client: Client, reply: bytes | None) -> None:
        """From the broker's thread."""
        with self._lock:
            self._answers.append((client, reply))
            is_first = len(self._answers) == 1
        if is_first:
            self.loop.call_soon_threadsafe(self._pass_on)

    def _pass_on(self) -> None:
        with self._lock:
            answers, self._answers = self._answers, deque()
        heard: dict[Client, list[bytes | None]] = defaultdict(list)
        for client, reply in answers:
            heard[client].append(reply)
        for client, given in heard.items():
            if (connection := self.connections.get(client)) is not None:
                connection.answered(given)
