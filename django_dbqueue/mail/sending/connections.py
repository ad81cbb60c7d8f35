"""One open connection per thread and mailer, reused from message to message; those of Django's SMTP
backend keep everything that the server says about a message."""

import os
import smtplib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.core.mail.backends import smtp
from django.utils.module_loading import import_string

from ..conf import mail_conf, mailer_of, mailers_configured

if TYPE_CHECKING:
    Client = smtplib.SMTP
    Backend = smtp.EmailBackend
else:
    Client = Backend = object

Answer = tuple[int, bytes]

# A server may hang up on an idle client; asking before every message would cost a round trip.
IDLE_SECONDS = 1.0

# Of a message, at once on its way to a server.
PART_BYTES = 64 * 1024

# Where a server takes so long for each recipient that there is no time for all of them.
NOT_ASKED = 450, b"not asked for yet: the server takes too long for each recipient"

# A server that has gone away must not hold up those who say goodbye to it.
GOODBYE_SECONDS = 1.0

_threads = threading.local()


@dataclass
class KeptConnection:
    """An open connection, how long it has been open and how much it has carried."""

    backend: Any
    opened: float = field(default_factory=monotonic)
    used: float = field(default_factory=monotonic)
    messages: int = 0

    def is_usable(self) -> bool:
        if self.messages >= mail_conf["CONNECTION_MAX_MESSAGES"]:
            return False
        if monotonic() - self.opened >= mail_conf["CONNECTION_MAX_AGE"]:
            return False
        if monotonic() - self.used < IDLE_SECONDS:
            return True
        # Whether the server is still there, as far as a backend lets us ask.
        noop = getattr(getattr(self.backend, "connection", None), "noop", None)
        if noop is None:
            return True
        try:
            return bool(noop()[0] == 250)
        except OSError:
            return False

    def close(self, within: float = GOODBYE_SECONDS) -> None:
        sock = getattr(getattr(self.backend, "connection", None), "sock", None)
        try:
            if sock is not None:
                sock.settimeout(within)
            self.backend.close()
        except Exception:  # noqa: BLE001  # why: it is given up, whatever it says to that
            return


# Those of every thread that carry nothing just now, by mailer; a forked child has its parent's
# in memory, too.
_everywhere: dict[tuple[int, threading.Thread], dict[str, KeptConnection]] = {}


@contextmanager
def connection(using: str) -> Iterator[KeptConnection]:
    """Lend this thread's connection to the mailer for one message; after any error it is closed.

    Errors on connecting come as they are; a project without a mailer for it raises
    ``ImproperlyConfigured``.
    """
    connections, name = _own_connections(), mailer_of(using)
    kept = connections.pop(name, None)
    if kept is not None and not kept.is_usable():
        kept.close()
        kept = None
    kept = kept or _open(using)
    try:
        yield kept
    except Exception:  # why: the conversation may have stopped anywhere
        kept.close()
        raise
    kept.messages += 1
    kept.used = monotonic()
    connections[name] = kept


def close_connections() -> None:
    """Close the connections of this thread."""
    _close(_own_connections(), GOODBYE_SECONDS)


def close_idle_connections(**_: Any) -> None:
    """Close what no thread of this process uses just now, within a second altogether."""
    until = monotonic() + GOODBYE_SECONDS
    for (process, _thread), connections in list(_everywhere.items()):
        if process == os.getpid():
            _close(connections, until - monotonic())


def new_backend(using: str) -> Any:
    """Return a new backend that delivers; ``using`` names an entry of ``MAILERS`` where it is set.

    ``ImproperlyConfigured`` when there is none, or when it would queue the message again.
    """
    alias = using or mail_conf["USING"]
    if not mailers_configured():
        backend = import_string(mail_conf["DELIVERY_BACKEND"])()
    elif alias:
        backend = mail.mailers[alias]
    else:
        raise ImproperlyConfigured(
            "queued without a mailer: name an entry of MAILERS in DBQUEUE['MAIL_USING']"
        )
    if getattr(backend, "queues_mail", False):
        raise ImproperlyConfigured("the mailer that should deliver queued mail queues it again")
    backend.fail_silently = False
    if getattr(backend, "timeout", 0) is None:
        backend.timeout = mail_conf["TIMEOUT"]
    return listening(backend)


def _own_connections() -> dict[str, KeptConnection]:
    # A forked child must not speak on its parent's connections, not even to close them.
    if getattr(_threads, "pid", None) != os.getpid():
        # What threads have left behind that are no more.
        for process, thread in list(_everywhere):
            if process == os.getpid() and not thread.is_alive():
                _close(_everywhere.pop((process, thread), {}), GOODBYE_SECONDS)
        _threads.pid, _threads.connections = os.getpid(), {}
        _everywhere[os.getpid(), threading.current_thread()] = _threads.connections
    connections: dict[str, KeptConnection] = _threads.connections
    return connections


def _close(connections: dict[str, KeptConnection], within: float) -> None:
    until = monotonic() + within
    while connections:
        connections.popitem()[1].close(max(0.01, until - monotonic()))


def _open(using: str) -> KeptConnection:
    backend = new_backend(using)
    backend.open()
    return KeptConnection(backend)


@dataclass
class Conversation:
    """What a server said about one message."""

    # When there is no more time for it, by the monotonic clock.
    until: float = float("inf")
    begun: float = field(default_factory=monotonic, init=False)
    # Called before the message itself goes out.
    before_data: Callable[[], object] = lambda: None
    # Whom it was asked for, and what it said to each, in their order, as far as it came.
    asked: list[str] = field(default_factory=list)
    recipients: list[Answer] = field(default_factory=list)
    # To the whole of the message.
    end: Answer | None = None
    # All of it was sent, the final dot included, and no answer came.
    is_in_doubt: bool = False

    def may_ask_another(self) -> bool:
        """Half of the time is for the message itself, where there is any."""
        seconds = self.until - self.begun
        return not self.recipients or seconds <= 0 or monotonic() - self.begun < seconds / 2


class Listening(Client):
    """Mixed into smtplib's clients."""

    listener: "ListeningBackend"

    def rcpt(self, recip: str, options: Any = ()) -> Answer:
        heard = self.listener.conversation
        answer = super().rcpt(recip, options) if heard.may_ask_another() else NOT_ASKED
        heard.asked.append(recip)
        heard.recipients.append(answer)
        return answer

    def data(self, msg: Any) -> Answer:
        self.listener.conversation.before_data()
        usual = self.sock.gettimeout() if self.sock else None
        answer = super().data(msg)
        if self.sock:
            self.sock.settimeout(usual)
        self.listener.conversation.is_in_doubt = False
        self.listener.conversation.end = answer
        return answer

    def send(self, s: Any) -> None:
        # Commands are text; bytes are a message, with its final dot.
        if isinstance(s, bytes):
            self._send_message(s)
        else:
            super().send(s)

    def _send_message(self, message: bytes) -> None:
        """Part by part: a socket's time-out is for all that it is given at once, and a line that is
        slow goes on, while one that is dead does not."""
        usual = self.sock.gettimeout() if self.sock else None
        until = self.listener.conversation.until
        # The answer is to be waited for within the same time.
        end = monotonic() + max(usual or 0, until - monotonic() - (usual or 0))
        for start in range(0, len(message), PART_BYTES):
            if self.sock is not None and usual is not None:
                self.sock.settimeout(max(0.01, min(usual, end - monotonic())))
            super().send(message[start : start + PART_BYTES])
        self.listener.conversation.is_in_doubt = True
        # The answer to a whole message may take longer than any other, but not for ever.
        if self.sock is not None and usual is not None:
            left = until - monotonic()
            self.sock.settimeout(max(usual, min(mail_conf["FINAL_TIMEOUT"], left)))


class ListeningBackend(Backend):
    """Mixed into Django's SMTP backend, and into what projects have made of it."""

    conversation: Conversation

    @property
    def connection_class(self) -> Any:
        kind: Any = super().connection_class

        def connect(*args: Any, **options: Any) -> Any:
            client = _with(Listening, kind)(*args, **options)
            # Not the conversation itself: the backend may connect again in the middle of one.
            client.listener = self
            return client

        return connect

    def open(self) -> bool | None:
        """Also where the project's own method has made the client, say to log in by a token."""
        is_new = super().open()
        client: Any = self.connection
        kind: Any = type(client)
        if issubclass(kind, smtplib.SMTP) and not issubclass(kind, Listening):
            client.__class__ = _with(Listening, kind)
            client.listener = self
        return is_new


def conversation_on(
    backend: Any, until: float, before_data: Callable[[], object]
) -> Conversation | None:
    """A fresh record of what is said from now on; None where nobody listens."""
    if not isinstance(backend, ListeningBackend) or not isinstance(backend.connection, Listening):
        return None
    backend.conversation = Conversation(until, before_data)
    return backend.conversation


def listening(backend: Any) -> Any:
    """Return the backend, which listens now if it is one for SMTP."""
    kind: Any = type(backend)
    if isinstance(backend, smtp.EmailBackend) and not issubclass(kind, ListeningBackend):
        backend.__class__ = _with(ListeningBackend, kind)
    return backend


@cache
def _with(mixin: Any, kind: Any) -> Any:
    return type(kind.__name__, (mixin, kind), {})
