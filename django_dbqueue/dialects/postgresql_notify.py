"""Telling those who listen on PostgreSQL of new jobs."""

import logging
import time
from collections.abc import Callable

from django.db.utils import Error

from .base import Dialect

logger = logging.getLogger("django_dbqueue")

CHANNEL = "dbqueue"
RECHECK_SECONDS = 0.005  # after a notification nobody is notified; then they look again


class Notifier:
    """Of one connection: at most one statement for a transaction, and after its commit."""

    def __init__(self, dialect: Dialect) -> None:
        # Not the connection, which would never be collected: it is the key under which we are kept.
        self.dialect = dialect
        self.notified_at = float("-inf")
        # Where it stands among what the transaction that is open does after its commit.
        self._waits_at = 0
        self._on_commit: Callable[[], None] | None = None

    def notify(self) -> None:
        connection = self.dialect.connection
        if connection.in_atomic_block and connection.commit_on_exit:
            self._notify_later()
        elif connection.get_autocommit():
            self._notify_now()
        else:
            # Somebody commits by hand, who may do so at any time.
            self._send()

    def _notify_later(self) -> None:
        """In a transaction of its own: PostgreSQL commits those that notify one after the other."""
        connection = self.dialect.connection
        waiting, at = connection.run_on_commit, self._waits_at
        if at < len(waiting) and waiting[at][1] is self._on_commit:
            return
        self._waits_at = len(waiting)
        self._on_commit = self._notify_now
        connection.on_commit(self._on_commit)

    def _notify_now(self) -> None:
        # A worker that was notified a moment ago looks once more; later commits need their own.
        # The time is that before the notification, which may be heard before its answer is here.
        if (now := time.monotonic()) - self.notified_at < RECHECK_SECONDS:
            return
        try:
            self._send()
        except Error as error:
            # The jobs are committed: an error would only make somebody enqueue them once more.
            logger.warning("nobody was told of new jobs; workers find them soon: %s", error)
        else:
            self.notified_at = now

    def _send(self) -> None:
        with self.dialect.connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")
