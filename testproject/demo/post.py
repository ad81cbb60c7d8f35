"""A mail server of our own on this machine: it takes, defers and refuses, and counts."""

import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from typing import Any

from aiosmtpd.controller import Controller

from . import scenario

HOST = "127.0.0.1"


class PostOffice:
    """What an SMTP server does with the shop's mail; its thread writes, others read afterwards."""

    def __init__(self) -> None:
        self.port = 0
        self.deliveries = 0
        self.first_at = 0.0
        self.taken: Counter[str] = Counter()  # by Message-ID
        self.recipients: Counter[str] = Counter()  # of what was taken
        self.deferred: Counter[str] = Counter()  # by recipient
        self.refused: Counter[str] = Counter()

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        where = scenario.domain(address)
        if where == scenario.GONE:
            self.refused[address] += 1
            return "550 5.1.1 There is nobody of that name here"
        if self.deferred[address] < scenario.DEFERRALS.get(where, 0):
            self.deferred[address] += 1
            return "451 4.7.1 Busy; please come back later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        message = message_from_bytes(envelope.content)
        self.taken[message["Message-ID"]] += 1
        self.recipients.update(envelope.rcpt_tos)
        self.first_at = self.first_at or time.monotonic()
        self.deliveries += 1
        return "250 Taken"

    @contextmanager
    def open(self) -> Iterator[None]:
        self.port = _free_port()
        controller = Controller(self, hostname=HOST, port=self.port)
        controller.start()
        try:
            yield
        finally:
            controller.stop()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port
