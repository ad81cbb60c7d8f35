"""A mail server of our own on loopback."""

import socket
import time
from dataclasses import dataclass, field
from email import message_from_bytes
from typing import Any

import django

SMTP = "django.core.mail.backends.smtp.EmailBackend"


@dataclass
class Server:
    """A mail server whose answer depends on the recipient's address."""

    connections: int = 0
    received: list[Any] = field(default_factory=list)
    open: list[Any] = field(default_factory=list)

    async def handle_EHLO(
        self, server: Any, session: Any, envelope: Any, hostname: str, responses: list[str]
    ) -> list[str]:
        self.connections += 1
        self.open.append(server)
        session.host_name = hostname
        return responses

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if address.startswith("refuse"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        first = envelope.rcpt_tos[0].partition("@")[0].rstrip("0123456789")
        if first == "defer":
            return "451 greylisted"
        if first == "stall":
            await server.loop.create_future()
        if first == "drop":
            server.transport.abort()
            return "250 into the void"
        self.received.append(message_from_bytes(envelope.content))
        return "250 taken"

    def hang_up(self) -> None:
        for server in self.open:
            server.loop.call_soon_threadsafe(server.transport.abort)
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def deliver_to(settings: Any, port: int, backend: str = SMTP) -> None:
    """Configure delivery to a port of this machine, in the way of this version of Django."""
    if django.VERSION >= (6, 1):
        options = {"host": "127.0.0.1", "port": port} if backend == SMTP else {}
        settings.MAILERS = {"smtp": {"BACKEND": backend, "OPTIONS": options}}
        settings.DBQUEUE = {"MAIL_USING": "smtp"}
    else:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
        settings.DBQUEUE = {"MAIL_DELIVERY_BACKEND": backend}
