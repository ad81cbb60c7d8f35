"""Statements of ours that a server leaves without an answer: nobody waits for them for ever.

A server that is cut off in the middle of an answer, or a firewall that has forgotten a connection,
says nothing at all, and a thread that reads from it is held in the system. Another thread then
shuts the connection down, which looks to the first one like any lost connection.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from ..dialects import dialect_of

logger = logging.getLogger("django_dbqueue")


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """A statement under way, and its connection's socket."""

    alias: str
    since: float
    socket: socket.socket


class StatementWatchdog:
    """What the threads of this process wait for; one of them looks now and then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: set[Wait] = set()

    @contextmanager
    def ends_in_time(self, connection: BaseDatabaseWrapper) -> Iterator[None]:
        """Meanwhile this thread waits for an answer on the connection, if it is open."""
        descriptor = dialect_of(connection).socket_descriptor
        if descriptor is None:
            yield
            return
        # A copy: its number is never another file's while it is shut down.
        copy = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=os.dup(descriptor))
        wait = Wait(connection.alias, time.monotonic(), copy)
        with self._lock:
            self._waits.add(wait)
        try:
            yield
        finally:
            with self._lock:
                self._waits.discard(wait)
                copy.close()

    def watch(self, connection: BaseDatabaseWrapper) -> None:
        """From here on all of a connection's statements, also after a reconnect."""
        if self.execute not in connection.execute_wrappers:
            # First: Django takes off the last one where a wrapper's block ends.
            connection.execute_wrappers.insert(0, self.execute)

    def execute(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        """One statement, as Django's execute wrappers are called."""
        with self.ends_in_time(context["connection"]):
            return execute(sql, params, many, context)

    def end_waits(self, seconds: float) -> None:
        """Shut down the connections that have been silent for so long."""
        before = time.monotonic() - seconds
        with self._lock:
            for wait in self._waits:
                if wait.since < before:
                    logger.warning("%s does not answer: reconnecting", wait.alias)
                    with suppress(OSError):
                        wait.socket.shutdown(socket.SHUT_RDWR)


STATEMENT_WATCHDOG = StatementWatchdog()
