"""Connections of our own threads: short lock timeouts, reconnected when lost.

A server that is cut off in the middle of an answer, or a firewall that has forgotten a connection,
says nothing at all, and a thread that reads from it is held in the system. Another thread then
shuts the connection down (``StatementWatchdog``), which looks to the first one like any lost
connection: nobody waits for ever for the answer to a statement of ours, or for a connection.
"""

import gc
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error

from ..conf import conf
from ..dialects import Dialect, ErrorKind, dialect_of, installed
from .connect_attempt import ConnectAttempt

logger = logging.getLogger("django_dbqueue")

RECONNECT_SECONDS_MAX = 1.0  # between tries to reach a database
REASONS_MAX = 5  # that are logged of one outage
LOCKED_SECONDS = 10.0  # for which a table that somebody has locked is left alone
# An attribute of a connection that is somebody else's, and whose session is not ours to change.
LENT = "dbqueue_lent"
# Where Django asks a server without a cursor of its own, so that no execute wrapper is called.
CALLS = ("_commit", "_rollback", "_set_autocommit", "init_connection_state", "is_usable")
CONNECT = "get_new_connection"


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """A statement, or a connect, under way, and what ends it."""

    alias: str
    since: float
    end: Callable[[], object]


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
        try:
            # A copy: its number is never another file's while it is shut down.
            descriptor = os.dup(descriptor)
        except OSError:
            # The driver has closed it, and tells that the connection is lost when it is used.
            yield
            return
        copy = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=descriptor)
        shut, since = partial(copy.shutdown, socket.SHUT_RDWR), time.monotonic()
        with copy, self._noted(connection.alias, shut, since):
            yield

    @contextmanager
    def _noted(self, alias: str, end: Callable[[], object], since: float) -> Iterator[None]:
        wait = Wait(alias, since, end)
        with self._lock:
            self._waits.add(wait)
        try:
            yield
        finally:
            with self._lock:
                self._waits.discard(wait)

    def watch(self, connection: BaseDatabaseWrapper) -> None:
        """From here on a connection's statements, the ends of its transactions, and its first words
        after a reconnect."""
        if self.execute not in connection.execute_wrappers:
            # First: Django takes off the last one where a wrapper's block ends.
            connection.execute_wrappers.insert(0, self.execute)
            self._watch_calls(connection)

    @contextmanager
    def watches(self, connection: BaseDatabaseWrapper) -> Iterator[None]:
        """Meanwhile the connection does work of ours; its other statements are a job's, which may
        wait for as long as it wants."""
        own = vars(connection)
        before = {name: own[name] for name in (*CALLS, CONNECT, "settings_dict") if name in own}
        connect_impatiently(connection)
        self._watch_calls(connection)
        try:
            with connection.execute_wrapper(self.execute):
                yield
        finally:
            for name in (*CALLS, CONNECT):
                own.pop(name, None)
            own.update(before)

    def _watch_calls(self, connection: BaseDatabaseWrapper) -> None:
        for name in CALLS:
            vars(connection)[name] = partial(self._call, connection, getattr(connection, name))
        if not dialect_of(connection).connects_in_time:
            connect = getattr(connection, CONNECT)
            vars(connection)[CONNECT] = partial(self._connect, connection, connect)

    def _call(self, connection: BaseDatabaseWrapper, call: Callable[..., Any], *args: Any) -> Any:
        with self.ends_in_time(connection):
            return call(*args)

    def _connect(
        self, connection: BaseDatabaseWrapper, connect: Callable[..., Any], *args: Any, **given: Any
    ) -> Any:
        driver: Any = connection.Database  # type: ignore[attr-defined]
        silence = driver.InterfaceError("there is no answer to a connect")
        attempt = ConnectAttempt(partial(connect, *args, **given), silence)
        # Until then the driver heeds its own limit.
        since = time.monotonic() + connection.settings_dict["OPTIONS"].get("connect_timeout", 0)
        with self._noted(connection.alias, attempt.give_up, since):
            return attempt.result()

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
            silent = [wait for wait in self._waits if wait.since < before]
            for alias in sorted({wait.alias for wait in silent}):
                logger.warning("%s does not answer: reconnecting", alias)
            for wait in silent:
                with suppress(OSError):
                    wait.end()


STATEMENT_WATCHDOG = StatementWatchdog()


class Session:
    """The databases that one thread of ours works on, with that thread's connections."""

    def __init__(
        self, aliases: set[str], on_connect: Callable[[Dialect], None] = lambda _: None
    ) -> None:
        """``on_connect`` is called with each new connection."""
        self.aliases = aliases
        self.on_connect = on_connect
        self._prepared: dict[str, object] = {}

    def prepare(self) -> None:
        """Make sure that every connection is open and gives up on locks soon."""
        for alias in self.aliases:
            connection = connections[alias]
            if connection.connection is not None and not connection.autocommit:
                connection.close()  # an error on the way back from a transaction
            opened = connection.connection
            is_known = opened is not None and self._prepared.get(alias) is opened
            if not (is_known or hasattr(connection, LENT)):
                connect_impatiently(connection)
                STATEMENT_WATCHDOG.watch(connection)
                connection.ensure_connection()
                with connection.cursor() as cursor:
                    dialect_of(connection).begin_own_session(cursor)
                self.on_connect(dialect_of(connection))
                self._prepared[alias] = connection.connection

    def recover(self, error: Error) -> None:
        """Close what an error may have broken; the next ``prepare`` reconnects."""
        for alias in self.aliases:
            connection = connections[alias]
            is_whole = dialect_of(connection).error_kind(error) is ErrorKind.AGAIN
            # An error on the way back from a transaction leaves it open: what others write on this
            # connection before the next ``prepare`` would not be committed.
            if not (is_whole and connection.autocommit):
                connection.close()


def connect_impatiently(connection: BaseDatabaseWrapper) -> None:
    """Let this thread's connection give up after 2 s when the server does not answer its connect,
    unless the project's settings say how long to wait."""
    settings = connection.settings_dict
    given = settings.get("OPTIONS", {})
    options = {**dialect_of(connection).impatient_options, **given}
    if options != given:
        # Other threads have the same dict.
        connection.settings_dict = {**settings, "OPTIONS": options}


@contextmanager
def brief_locks(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Meanwhile statements of ours on a connection of the project's give up a lock within 2 s. Then
    it is closed, since its session is not as the project's code expects it."""
    dialect = dialect_of(connection)
    if dialect.one_writer or hasattr(connection, LENT):
        yield
        return
    try:
        with connection.cursor() as cursor:
            dialect.begin_own_session(cursor)
        yield
    finally:
        connection.close()


class ReconnectBackoff:
    """Pauses that grow from 0.1 s while a database stays away; logs the first failure, and others
    for new reasons: a lost connection may be followed by what keeps another from being opened.
    Work is to go on within 3 s of the database's return (a connect may take 2), and outcomes are to
    be written before a reaper may judge, which is ``worker_timeout`` after it."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.failures = 0
        self._said: set[str] = set()

    def failed(self, error: Exception) -> float:
        """Note a failure; how long to wait before the next try."""
        self.failures += 1
        longest = min(RECONNECT_SECONDS_MAX, conf["WORKER_TIMEOUT"] / 4)
        pause: float = min(longest, 0.1 * 2 ** min(self.failures - 1, 9)) * random.uniform(0.7, 1.0)
        reason = str(error).strip()
        is_new = reason not in self._said and len(self._said) < REASONS_MAX
        if is_new:
            self._said.add(reason)
        level = logging.WARNING if is_new else logging.DEBUG
        logger.log(level, "%s: %s; trying again until it works", self.what, reason)
        return pause

    def worked(self) -> None:
        if self.failures:
            logger.warning("%s works again; failures before: %d", self.what, self.failures)
        self.failures = 0
        self._said.clear()


def forget_pools() -> None:
    """Let no connection come from a pool (``OPTIONS["pool"]``): its threads do not survive a fork,
    and all children would share its connections. Our threads keep theirs anyway."""
    for connection in installed():
        options = connection.settings_dict.get("OPTIONS", {})
        if options.get("pool"):
            connection.close()
            connection.close_pool()  # type: ignore[attr-defined]
            del options["pool"]


def close_before_fork() -> None:
    """Close this thread's connections, and those that threads left behind as they ended.

    What crosses a fork is closed twice: on SQLite that drops the locks of the whole process, on a
    server it ends the session. A thread that still runs keeps its own.
    """
    connections.close_all()
    close_left_behind()


def close_left_behind() -> None:
    """Close the connections of threads that ended; slow in a large process."""
    # A connection and its parts point at each other, so nothing else would close it.
    gc.collect()
