"""Connections of our own threads: short lock timeouts, reconnected when lost."""

import gc
import logging
import random
import threading
from collections.abc import Callable, Iterable

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.utils import Error

from ..conf import conf
from ..dialects import Dialect, ErrorKind, dialect_of, installed
from .leftovers import discard, has_changed, watch_session
from .statement_watchdog import STATEMENT_WATCHDOG

logger = logging.getLogger("django_dbqueue")

LONGEST = 1.0  # seconds between tries to reach a database


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
            connect_impatiently(connection)
            STATEMENT_WATCHDOG.watch(connection)
            if connection.connection is not None and not connection.autocommit:
                connection.close()  # an error on the way back from a transaction
            if (
                connection.connection is None
                or self._prepared.get(alias) is not connection.connection
            ):
                connection.ensure_connection()
                with connection.cursor() as cursor:
                    cursor.execute(dialect_of(connection).own_session())
                self.on_connect(dialect_of(connection))
                self._prepared[alias] = connection.connection

    def recover(self, error: Error) -> None:
        """Close what an error may have broken; the next ``prepare`` reconnects."""
        for alias in self.aliases:
            connection = connections[alias]
            if dialect_of(connection).error_kind(error) is ErrorKind.AGAIN:
                continue
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


class ReconnectBackoff:
    """Pauses that grow from 0.1 s while a database stays away; logs the first failure.

    Work is to go on within 3 s of the database's return (a connect may take 2), and outcomes are to
    be written before a reaper may judge, which is ``worker_timeout`` after it.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.failures = 0

    def failed(self, error: Exception) -> float:
        """Note a failure; how long to wait before the next try."""
        self.failures += 1
        longest = min(LONGEST, conf["WORKER_TIMEOUT"] / 4)
        pause: float = min(longest, 0.1 * 2 ** min(self.failures - 1, 9)) * random.uniform(0.7, 1.0)
        level = logging.WARNING if self.failures == 1 else logging.DEBUG
        logger.log(level, "%s: %s; trying again until it works", self.what, str(error).strip())
        return pause

    def worked(self) -> None:
        if self.failures:
            logger.warning("%s works again after %d failures", self.what, self.failures)
        self.failures = 0


class _Opened(threading.local):
    """The connections of a thread that asked for it, kept, since looking for them takes time."""

    known: list[BaseDatabaseWrapper] | None = None

    def all(self) -> Iterable[BaseDatabaseWrapper]:
        return connections.all(initialized_only=True) if self.known is None else self.known

    def forget(self, connection: BaseDatabaseWrapper) -> None:
        if self.known is not None:
            self.known = [one for one in self.known if one is not connection]


_opened = _Opened()


def watch_connections() -> None:
    """Note from here on which connections this thread opens, and what is done to their sessions."""
    _opened.known = list(connections.all(initialized_only=True))


def _note(connection: BaseDatabaseWrapper, **_: object) -> None:
    if _opened.known is not None:
        watch_session(connection)
        if connection not in _opened.known:
            _opened.known.append(connection)


connection_created.connect(_note, dispatch_uid="dbqueue")


def reset_connections(*, failed: bool = False) -> None:
    """After user code: throw away what it left broken or open, keep the rest connected.

    Where an error ended the job, the server may have been replaced by another one: reconnect.
    ``CONN_MAX_AGE`` is not looked at: reconnecting for every job would halve the speed.
    """
    for connection in _opened.all():
        if connection.in_atomic_block:
            discard(connection)
            _opened.forget(connection)
        elif connection.connection is None:
            continue
        elif (
            not connection.autocommit
            or has_changed(connection)
            or (connection.errors_occurred and failed)
        ):
            connection.close()
        elif connection.errors_occurred:
            _keep_if_usable(connection)
        if connection.queries_logged:
            connection.queries_log.clear()


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


def drop_dead_connections() -> None:
    """Before user code, after a pause: a server may have closed what was idle."""
    for connection in _opened.all():
        if connection.connection is not None and not _is_usable(connection):
            connection.close()


def _keep_if_usable(connection: BaseDatabaseWrapper) -> None:
    if _is_usable(connection):
        connection.errors_occurred = False
    else:
        connection.close()


def _is_usable(connection: BaseDatabaseWrapper) -> bool:
    with STATEMENT_WATCHDOG.ends_in_time(connection):
        return connection.is_usable()
