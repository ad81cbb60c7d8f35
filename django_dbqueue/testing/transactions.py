"""The transaction of Django's ``TestCase``, hidden from the code that runs in it.

``TestCase`` wraps each test in ``atomic()``, where a worker could do nothing: there are no commits.
Meanwhile the connection says that it is in autocommit, and each transaction of the code is a
savepoint of the test's: what it commits the test sees, and what it has asked for on its commit is
called. At the end of the test all of it is rolled back.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from ..current import current_job
from ..worker.session import LENT

TRANSACTION = "dbqueue_transaction"
STATEMENT = "dbqueue_statement"


@contextmanager
def hidden_transaction() -> Iterator[None]:
    """While this lasts, code on this thread runs as in autocommit, though inside a ``TestCase``.

    Without a transaction it changes nothing. ``ImproperlyConfigured`` inside a block of
    ``atomic()`` of the test's own: what it has written is not there for others before its commit.
    A connection stays open meanwhile: closing it rolls back, and inside ``atomic()`` it is a
    ``TransactionManagementError``. What a database checks at a commit is not checked.
    """
    with ExitStack() as stack:
        for connection in connections.all(initialized_only=True):
            if connection.in_atomic_block:
                stack.enter_context(_Hidden(connection).hidden())
        yield


class _Hidden:
    """One connection's transaction: what Django calls on the connection, done by savepoints."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        _check(connection)
        self.connection: Any = connection
        # Whether code within has begun a transaction of its own.
        self.is_open = False
        # Whether the statement under way is one of this class.
        self._is_ours = False

    @contextmanager
    def hidden(self) -> Iterator[None]:
        attributes, lent = vars(self.connection), self._lent()
        before = {name: attributes[name] for name in lent if name in attributes}
        attributes.update(lent)
        try:
            yield
        finally:
            try:
                self.roll_back()
            finally:
                for name in lent:
                    attributes.pop(name, None)
                attributes.update(before)

    def _lent(self) -> dict[str, Any]:
        """The attributes of a connection in autocommit, and the methods that are done otherwise."""
        return {
            "in_atomic_block": False,
            "autocommit": True,
            "commit_on_exit": True,
            "needs_rollback": False,
            "rollback_exc": None,
            "savepoint_ids": [],
            "atomic_blocks": [],
            "run_on_commit": [],
            "run_commit_hooks_on_set_autocommit_on": False,
            "execute_wrappers": [self.execute, *self.connection.execute_wrappers],
            # The worker forgets what was logged, which may be for the test to count.
            "force_debug_cursor": False,
            "_commit": self.commit,
            "_rollback": self.roll_back,
            "_set_autocommit": self.set_autocommit,
            "_start_transaction_under_autocommit": lambda: None,
            "close": self.close,
            LENT: True,
        }

    def execute(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """One statement of the code within, as Django's execute wrappers are called."""
        if self._is_ours:
            return execute(sql, params, many, context)
        if not self.connection.autocommit:
            if not self.is_open:
                self._savepoint("_savepoint", TRANSACTION)
                self.is_open = True
            return execute(sql, params, many, context)
        if not self.connection.features.atomic_transactions:
            return execute(sql, params, many, context)
        # Its error would break the transaction, which in autocommit is its own alone.
        self._savepoint("_savepoint", STATEMENT)
        has_worked = False
        try:
            result = execute(sql, params, many, context)
            has_worked = True
        finally:
            end = "_savepoint_commit" if has_worked else "_savepoint_rollback"
            self._savepoint(end, STATEMENT)
        return result

    def commit(self) -> None:
        if self.is_open:
            self._savepoint("_savepoint_commit", TRANSACTION)
            self.is_open = False

    def roll_back(self) -> None:
        if self.is_open:
            self.is_open = False
            self.connection.needs_rollback = False
            self._savepoint("_savepoint_rollback", TRANSACTION)
            self._savepoint("_savepoint_commit", TRANSACTION)

    def set_autocommit(self, autocommit: bool) -> None:
        if autocommit:
            self.commit()

    def close(self) -> None:
        """What closing it would undo is undone; it stays open."""
        if self.connection.in_atomic_block:
            job = current_job()
            raise TransactionManagementError(
                f"{job or 'somebody'} left a block of atomic() open, or closed the connection in "
                f"one: in a TestCase that would end the test's own transaction; use "
                f"TransactionTestCase, or pytest's django_db(transaction=True)"
            )
        self.roll_back()
        self.connection.autocommit = True

    def _savepoint(self, verb: str, name: str) -> None:
        self._is_ours = True
        try:
            getattr(self.connection, verb)(name)
        finally:
            self._is_ours = False


def _check(connection: BaseDatabaseWrapper) -> None:
    """Raise where no ``TestCase`` has begun the transaction, or where it is broken."""
    innermost = connection.atomic_blocks[-1] if connection.atomic_blocks else None
    if not getattr(innermost, "_from_testcase", False):
        raise ImproperlyConfigured(
            f"{connection.alias} is inside atomic(), and a worker sees nothing of that before its "
            f"commit: leave the block first. That of TestCase itself, or of pytest's django_db, "
            f"may stay, and TransactionTestCase has none"
        )
    connection.validate_no_broken_transaction()
