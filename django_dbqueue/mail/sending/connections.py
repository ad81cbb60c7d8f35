"""One open connection per thread and mailer, reused from message to message."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from ..conf import mail_conf, mailer_of, mailers_configured
from .smtp import listening

# A server may hang up on an idle client; asking before every message would cost a round trip.
IDLE_SECONDS = 1.0

# A server that has gone away must not hold up whoever says goodbye to it.
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
        return monotonic() - self.used < IDLE_SECONDS or _answers(self.backend)

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
    lines, name = _lines(), mailer_of(using)
    line = lines.pop(name, None) or _open(using)
    if not line.is_usable():
        line.close()
        line = _open(using)
    try:
        yield line
    except Exception:  # why: the conversation may have stopped anywhere
        line.close()
        raise
    line.messages += 1
    line.used = monotonic()
    lines[name] = line


def close_connections() -> None:
    """Close the connections of this thread."""
    _close(_lines(), GOODBYE_SECONDS)


def close_idle_connections(**_: Any) -> None:
    """Close what no thread of this process uses just now, within a second altogether."""
    until = monotonic() + GOODBYE_SECONDS
    for (process, _thread), lines in list(_everywhere.items()):
        if process == os.getpid():
            _close(lines, until - monotonic())


def new_backend(using: str) -> Any:
    """Return a new backend that delivers; ``using`` names an entry of ``MAILERS`` where it is set.

    ``ImproperlyConfigured`` when there is none, or when it would queue the message again.
    """
    backend = _mailer(using) if mailers_configured() else _backend()
    if getattr(backend, "queues_mail", False):
        raise ImproperlyConfigured("the mailer that should deliver queued mail queues it again")
    backend.fail_silently = False
    if getattr(backend, "timeout", 0) is None:
        backend.timeout = mail_conf["TIMEOUT"]
    return listening(backend)


def _lines() -> dict[str, KeptConnection]:
    # A forked child must not speak on its parent's connections, not even to close them.
    if getattr(_threads, "pid", None) != os.getpid():
        _close_abandoned()
        _threads.pid, _threads.lines = os.getpid(), {}
        _everywhere[os.getpid(), threading.current_thread()] = _threads.lines
    lines: dict[str, KeptConnection] = _threads.lines
    return lines


def _close_abandoned() -> None:
    """What threads have left behind that are no more."""
    for process, thread in list(_everywhere):
        if process != os.getpid() or thread.is_alive():
            continue
        _close(_everywhere.pop((process, thread), {}), GOODBYE_SECONDS)


def _close(lines: dict[str, KeptConnection], within: float) -> None:
    until = monotonic() + within
    while lines:
        lines.popitem()[1].close(max(0.01, until - monotonic()))


def _open(using: str) -> KeptConnection:
    backend = new_backend(using)
    backend.open()
    return KeptConnection(backend)


def _mailer(using: str) -> Any:
    alias = using or mail_conf["USING"]
    if not alias:
        raise ImproperlyConfigured(
            "queued without a mailer: name an entry of MAILERS in DBQUEUE['MAIL_USING']"
        )
    return mail.mailers[alias]


def _backend() -> Any:
    return import_string(mail_conf["DELIVERY_BACKEND"])()


def _answers(backend: Any) -> bool:
    """Whether the server is still there, as far as a backend lets us ask."""
    noop = getattr(getattr(backend, "connection", None), "noop", None)
    if noop is None:
        return True
    try:
        return bool(noop()[0] == 250)
    except OSError:
        return False
