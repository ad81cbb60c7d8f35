"""PostgreSQL: large claims from a queue take turns.

Of claims at the same time each one walks over the jobs that all others are about to take. So a
large one asks for an advisory lock first, in the same message. It gives it back before its commit,
so that nobody waits for another one's disk. It is a help and no promise: a claim that does not get
it soon goes on without.
"""

from contextlib import ExitStack
from hashlib import sha1
from time import monotonic

from django.db.backends.utils import CursorWrapper
from django.db.utils import Error, OperationalError

from .claim_turns import LARGE, WITHOUT_SECONDS
from .types import Claim, Row, Statement

TURN = "1s"  # that a claim waits for its turn


class AdvisoryTurns:
    """Of the claims on one connection."""

    def __init__(self) -> None:
        self._without_until = 0.0

    def would_help(self, claim: Claim) -> bool:
        return claim.limit >= LARGE and monotonic() >= self._without_until

    def claim(self, cursor: CursorWrapper, claim: Claim, update: Statement) -> list[Row]:
        """The rows that ``update`` returns, mostly while no other claim from the queue is at it."""
        sql, params = update
        key = _key_of_lock(claim)
        begin = f"SET LOCAL lock_timeout = '{TURN}'; SELECT pg_advisory_lock({key})"
        try:
            with ExitStack() as failed:
                # After an interrupt, too: the lock would outlive the transaction.
                failed.callback(self._give_up, cursor, key)
                cursor.execute(f"{begin}; {sql}; SELECT pg_advisory_unlock({key})", params)
                failed.pop_all()
        except Error as error:
            is_refused = getattr(error.__cause__, "sqlstate", None) is not None
            if cursor.db.connection is None or not is_refused:
                raise
            # Where the server says so, nothing of the message counts.
            cursor.execute(sql, params)
            return list(cursor.fetchall())
        if not (cursor.nextset() and cursor.nextset()):
            self._do_without()
            raise OperationalError("an execute wrapper has read past the rows of a claim")
        return list(cursor.fetchall())

    def _give_up(self, cursor: CursorWrapper, key: int) -> None:
        """Give the lock back, if it is held, or close the session that has it."""
        self._do_without()
        ours = "locktype = 'advisory' AND pid = pg_backend_pid() AND granted"
        held = f"{ours} AND ((classid::bigint << 32) | objid::bigint) = {key}"
        try:
            cursor.execute(f"SELECT pg_advisory_unlock({key}) FROM pg_locks WHERE {held}")
        except Error:
            cursor.db.close()

    def _do_without(self) -> None:
        self._without_until = monotonic() + WITHOUT_SECONDS


def takes_several_statements(cursor: CursorWrapper) -> bool:
    """Whether a message may hold more than one, and each has its answer: not with psycopg2, nor
    where the server binds the parameters."""
    return isinstance(cursor.cursor, getattr(cursor.db.Database, "ClientCursor", ()))


def _key_of_lock(claim: Claim) -> int:
    """Locks are the database's, and have numbers of 64 bits."""
    digest = sha1(repr(claim.place).encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
