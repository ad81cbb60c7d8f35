"""A mail server on plain sockets that does what the recipient's name says, however rude it is."""

import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from typing import Any

# What the local part of an address begins with: the answer to its RCPT.
TO_RECIPIENTS = {
    "refuse": "550 5.1.1 no such user",
    "defer": "450 4.2.1 mailbox busy",
    "toomany": "552 5.5.3 too many recipients",
    "busy": "421 4.7.0 too many connections",
    "throttle": "454 4.7.0 throttled",
}
# The answer to the whole message, by its first recipient that was taken.
TO_MESSAGES = {
    "late": "451 4.7.1 greylisted",
    "full": "552 5.2.2 over quota",
    "big": "552 5.3.4 too big",
    "spam": "554 5.7.1 spam",
}


@dataclass
class Received:
    recipients: list[str]
    content: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def message(self) -> Any:
        return message_from_bytes(self.content)


@dataclass
class ScriptedServer:
    """``received`` holds what was answered with 250, ``unanswered`` what stalled after the dot.

    It resets the connection in a message to ``reset``, and closes it after one to ``drop``.
    """

    # Called with what is taken, before its 250 goes out.
    before_answer: Callable[[Received], None] = lambda _: None
    received: list[Received] = field(default_factory=list)
    unanswered: list[Received] = field(default_factory=list)
    connections: int = 0
    goodbyes: int = 0
    stalls: bool = True
    to_recipients: dict[str, str] = field(default_factory=lambda: dict(TO_RECIPIENTS))
    to_messages: dict[str, str] = field(default_factory=lambda: dict(TO_MESSAGES))

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._peers: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._stop.set()
        # Else the thread that waits for clients would keep the port open for one more.
        with suppress(OSError):  # closed before
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process deliver to it."""
        return {"EMAIL_HOST": "127.0.0.1", "EMAIL_PORT": str(self.port)}

    def hang_up(self) -> None:
        """End all conversations, without a word."""
        for peer in self._peers:
            with suppress(OSError):  # it has ended
                peer.shutdown(socket.SHUT_RDWR)

    def got(self, local_part: str) -> int:
        """How many messages this recipient has."""
        names = [name.partition("@")[0] for one in self.received for name in one.recipients]
        return names.count(local_part)

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            self._peers.append(peer)
            threading.Thread(target=self._serve, args=[peer], daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        try:
            Dialogue(self, peer).hold()
        except (OSError, EOFError):
            pass  # the client is gone
        finally:
            peer.close()

    def stall(self) -> None:
        self._stop.wait(60)


class Dialogue:
    """One connection."""

    def __init__(self, server: ScriptedServer, peer: socket.socket) -> None:
        self.server = server
        self.peer = peer
        self.file = peer.makefile("rb")
        self.recipients: list[str] = []

    def hold(self) -> None:
        self.say("220 here")
        while verb := self.read().partition(" ")[0].strip().upper():
            if not getattr(self, f"do_{verb}", self.unknown)():
                return

    def read(self) -> str:
        self.line = self.file.readline().decode(errors="replace")
        return self.line

    def say(self, answer: str) -> bool:
        """Whether the connection stays open after this answer."""
        self.peer.sendall(f"{answer}\r\n".encode(errors="surrogateescape"))
        return not answer.startswith(("421", "221"))

    def unknown(self) -> bool:
        return self.say("250 fine")

    def do_QUIT(self) -> bool:
        self.server.goodbyes += 1
        return self.say("221 bye")

    def do_MAIL(self) -> bool:
        self.recipients = []
        return self.say("250 sender fine")

    do_RSET = do_MAIL

    def do_RCPT(self) -> bool:
        [address] = re.findall("<(.*?)>", self.line)
        answer = scripted(address, self.server.to_recipients)
        if answer is None or answer.startswith("25"):
            self.recipients.append(address)
        return self.say(answer or "250 recipient fine")

    def do_DATA(self) -> bool:
        if not self.recipients:
            return self.say("503 nobody to send it to")
        self.say("354 go on")
        first = self.recipients[0]
        if first.startswith("reset"):
            self.file.readline()
            # With a linger of 0 seconds a close is a reset.
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        received = Received(self.recipients, self.content())
        if first.startswith("drop"):
            return False
        if first.startswith("stall") and self.server.stalls:
            self.server.unanswered.append(received)
            self.server.stall()
            return False
        return self.answer(received, scripted(first, self.server.to_messages))

    def content(self) -> bytes:
        lines = []
        while (line := self.file.readline()) != b".\r\n":
            if not line:
                raise EOFError
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        return b"".join(lines)

    def answer(self, received: Received, refusal: str | None) -> bool:
        if refusal is not None:
            return self.say(refusal)
        self.server.received.append(received)
        self.server.before_answer(received)
        return self.say(f"250 2.0.0 taken as {len(self.server.received)}")


def scripted(address: str, script: dict[str, str]) -> str | None:
    local_part = address.partition("@")[0].rstrip("0123456789")
    return script.get(local_part)
