"""The contract of a dialect, and what most databases share."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import chain
from typing import Any, ClassVar
from weakref import ref

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.utils import Error

from .connects import kind_by_connection
from .types import Claim, ConnectionRoom, ErrorKind, Inserted, Row, RowsLocked, Statement

SILENCE_SECONDS = 10  # in a transaction of a claim, which takes milliseconds
NOTHING_TO_DO = nullcontext()
# As the partial unique index is declared.
ON_TWIN = "ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL"


@contextmanager
def rollback_on_error(rollback: Callable[[], object]) -> Iterator[None]:
    try:
        yield
    except BaseException:  # why: whatever it is, no transaction is left open
        with suppress(Error):  # the connection may be gone
            rollback()
        raise


class Dialect:
    """How one connection claims, tells the time, and which of its errors mean what."""

    # Which collation compares names byte by byte, where the default one does not?
    name_collation: ClassVar[str | None] = None
    one_writer: ClassVar[bool] = False  # at a time: claiming and finishing share a connection
    has_typed_columns: ClassVar[bool] = True  # Does a column of numbers hold nothing else?
    # Does a look-up in such a query go by an index? Then ``heads`` are found in one statement.
    seeks_in_recursion: ClassVar[bool] = True
    has_lateral: ClassVar[bool] = False  # May a query in FROM name what stands before it?
    compares_rows: ClassVar[bool] = True  # Is an index searched with (a, b) > (x, y)?
    bounds_rows: ClassVar[bool] = True  # Does (a, b) <= (x, y) bound what is read?
    look_every: ClassVar[float | None] = None  # seconds, where nobody tells of news
    # Seconds after news in which there may be more that nobody tells of.
    silent_after_news: ClassVar[float] = 0.0
    # OPTIONS that let a connect to a server that does not answer fail soon.
    impatient_options: ClassVar[Mapping[str, int]] = {}
    connects_in_time = True  # Does a driver's own limit hold for all of a connect?
    lost_some = False  # Has the last claim lost, or left, to others a part of what came first?
    shares_sessions = False  # Does a pooler give others the sessions of this own connection?
    setup_hint: ClassVar[str] = ""  # what to do about a setup_problem
    now: ClassVar[str] = ""  # the moment of execution in UTC, as SQL
    minute: ClassVar[str] = ""  # whole minutes since 1970, UTC
    # All of the ways above, as a pattern, and an instant in UTC: with them a test sets the clock.
    clock_pattern: ClassVar[str] = ""
    instant_literal: ClassVar[str] = ""
    reads_past: ClassVar[str] = "1 = 0"  # SQL: does a transaction read what was as it began?
    read_newest: ClassVar[str] = ""  # as the first statement: it does not

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = ref(connection)

    @property
    def connection(self) -> BaseDatabaseWrapper:
        connection = self._connection()
        assert connection is not None, "a dialect lives as long as its connection"
        return connection

    def now_plus(self, seconds: str) -> str:
        """SQL for the moment of execution plus an SQL expression of seconds."""
        raise NotImplementedError

    def is_past(self, instant: str, seconds: str = "0") -> str:
        """SQL for: the instant was at least so many seconds ago. An index is searched with it."""
        return f"{instant} <= {self.now_plus(f'-({seconds})')}"

    def seconds_until(self, instant: str) -> str:
        """SQL for the seconds from now until an SQL expression of an instant."""
        raise NotImplementedError

    @staticmethod
    def readable_expression(instant: str) -> str:
        """SQL that reads an instant as Python is to have it: in UTC, or as text."""
        return instant

    @classmethod
    def readable_column(cls, instant: str) -> str:
        """The same for a column, where a hand may have written what Python has no instant for."""
        return cls.readable_expression(instant)

    def claim(self, cursor: CursorWrapper, claim: Claim) -> list[Row]:
        """Stamp up to ``limit`` ready jobs with the owner; the rows in any order."""
        raise NotImplementedError

    def heads(self, table: str, pk: str, first: str, others: str, most: int) -> str | None:
        """A statement that finds the first ready job, (queue, priority, key), of up to ``most``
        queues; None = they are to be found one by one. Conditions: ``first`` of the first queue,
        ``others`` are added for those after it; parameters come in order."""
        return None

    def gains_by_floors(self) -> bool:
        """Whether a look passes over the rows that others could still see, one by one."""
        return False

    def by_key(self, table: str) -> str:
        """The table as an UPDATE or SELECT names it when rows must be reached by primary key."""
        return table

    def delete_by_key(self, table: str) -> str:
        """The beginning of a DELETE that reaches its rows by primary key."""
        return f"DELETE FROM {table}"

    def read_column(self, name: str) -> str:
        """A column that a statement reads, quoted: an error where the table has lost it."""
        return str(self.connection.ops.quote_name(name))

    def by_prefix(self, column: str) -> str:
        """What an index of a column of texts is over, so that ``istartswith`` goes by it."""
        return column

    def among(self, column: str, keys: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """SQL, with its parameters, for: the column is one of these raw keys; of one type all."""
        if {*map(type, keys)} == {int}:
            return self.among_numbers(column, keys)
        return f"{column} IN ({', '.join(['%s'] * len(keys))})", keys

    def among_numbers(self, column: str, keys: Sequence[int]) -> tuple[str, Sequence[Any]]:
        """The same for numbers, of which hundreds are expensive to fill in one by one."""
        raise NotImplementedError

    def placeholder(self, value: Any) -> str:
        """How a statement takes a name that was read from a table."""
        return "%s"

    def decode_leniently(self) -> AbstractContextManager[None]:
        """Meanwhile text that cannot be decoded can be read on this connection, as a ``str`` that
        shows its bytes."""
        return NOTHING_TO_DO

    def insert(self, cursor: CursorWrapper, sql: str, params: Sequence[Any], pk: str) -> Any:
        """Run an INSERT of one row; the key that the database has numbered it with."""
        cursor.execute(sql, params)
        return cursor.lastrowid

    def insert_of(self, table: str, columns: Sequence[Inserted], rows: Sequence[Row]) -> Statement:
        """An INSERT of many rows, each of which has the values that are to be filled in."""
        names = ", ".join(one.name for one in columns)
        row = f"({', '.join(one.text for one in columns)})"
        sql = f"INSERT INTO {table} ({names}) VALUES {', '.join([row] * len(rows))}"
        return sql, list(chain.from_iterable(rows))

    def insert_many(
        self, cursor: CursorWrapper, sql: str, params: Sequence[Any], pk: str, count: int
    ) -> list[Any]:
        """The same of ``count`` rows."""
        cursor.execute(f"{sql} RETURNING {pk}", params)
        return [key for (key,) in cursor.fetchall()]

    def insert_new(
        self, cursor: CursorWrapper, sql: str, params: Sequence[Any], pk: str
    ) -> Any | None:
        """Run an INSERT; the new key, or None where (queue, dedup_key) was taken: no error then.

        MySQL knows no keys but those that it numbers: 0 then. Another constraint raises its error,
        or (MySQL) answers None too.
        """
        cursor.execute(f"{sql} {ON_TWIN} DO NOTHING RETURNING {pk}", params)
        found = cursor.fetchall()
        return found[0][0] if found else None

    def insert_after(
        self,
        cursor: CursorWrapper,
        first: Statement,
        sql: str,
        params: Sequence[Any],
        pk: str,
        is_alone: bool,
    ) -> Any | None:
        """Run an UPDATE and, where it has changed a row, ``insert``; None where it has not.

        ``is_alone``: in a transaction of their own.
        """
        with self._transaction(cursor) if is_alone else NOTHING_TO_DO:
            cursor.execute(*first)
            if cursor.rowcount != 1:
                return None
            return self.insert(cursor, sql, params, pk)

    @contextmanager
    def _transaction(self, cursor: CursorWrapper) -> Iterator[None]:
        """On a connection in autocommit; Django's own takes several times as long."""
        cursor.execute("BEGIN")
        with rollback_on_error(lambda: cursor.execute("ROLLBACK")):
            yield
        cursor.execute("COMMIT")

    @property
    def sees_commits(self) -> bool:
        """Whether each statement of a transaction sees what others have committed, or fails."""
        return True

    def own_session(self) -> str:
        """The statement that makes a connection of our own give up a lock within 2 s."""
        raise NotImplementedError

    def begin_own_session(self, cursor: CursorWrapper) -> None:
        """Run it, and see to what its answer shows: the first statement of ours on a connection."""
        cursor.execute(self.own_session())

    def keep_to_indexes(self) -> None:
        """From here on, look for rows on this connection as the statements were meant to, whatever
        the database believes of the table. Not for connections that users' code may work on."""

    def end_silent_transactions(self, seconds: int = SILENCE_SECONDS) -> None:
        """From here on, have the server end a transaction of this connection whose client says
        nothing for so long: frozen, or cut off, it may hold a lock that all claims need."""

    @staticmethod
    def can_notify() -> bool:
        """Whether it does what the setting NOTIFY asks for."""
        return False

    def listen(self) -> None:
        """From here on, hear of others' commits on this connection, as far as that is possible."""

    @property
    def descriptor(self) -> int | None:
        """What becomes readable when there may be news."""
        return None

    @property
    def socket_descriptor(self) -> int | None:
        """Of the open connection to a server."""
        return None

    def has_news(self) -> bool:
        """Whether others have committed since the last time that was asked, as far as is known."""
        return False

    def notify(self) -> None:
        """Tell those who listen that a job is ready, once the caller has committed it."""

    @property
    def is_node(self) -> bool:
        """Whether it is one of several servers that take writes and know no locks of each other: of
        two that change the same row, the later commit is refused."""
        return False

    def catch_up(self) -> bool:
        """Ask before something is taken for lost or gone: in a cluster, wait until this connection
        sees what others have committed by now. True = look once more."""
        return False

    def knows(self, error: Error) -> bool:
        """Whether it is an error of this database's driver, or one of ours."""
        driver: Any = self.connection.Database  # type: ignore[attr-defined]
        return error.__cause__ is None or isinstance(error.__cause__, driver.Error)

    def error_kind(self, error: Error) -> ErrorKind | None:
        """What to do about a database error; None = it is the statement's own fault."""
        if isinstance(error, RowsLocked):
            return ErrorKind.AGAIN
        return self.kind_of_code(error) or kind_by_connection(error)

    def kind_of_code(self, error: Error) -> ErrorKind | None:
        raise NotImplementedError

    def retry_pauses(self) -> Iterator[float]:
        """Seconds to wait before each further try of a statement that asked for it."""
        for attempt in range(5):
            yield random.uniform(0.001, 0.01 * 2**attempt)

    def connection_room(self, cursor: CursorWrapper) -> ConnectionRoom | None:
        """Of the limits on connections, the one that has least room; None = there is none."""
        return None

    def engine_problem(self, cursor: CursorWrapper, table: str) -> str:
        """Why this table cannot be a queue table, or ''."""
        return ""

    def is_given_again(self, table: str, pk: str) -> str:
        """SQL for: the database will number another row with this row's key."""
        return "1 = 0"

    def upkeep_problem(self, cursor: CursorWrapper, table: str) -> str:
        """Why dead rows of a table, by its quoted name, stay for long, or ''."""
        return ""

    def cautions(self, cursor: CursorWrapper) -> Iterator[tuple[str, str]]:
        """Ids of checks, and what stands around this server that jobs may suffer from."""
        yield from ()

    def durability_problem(self, cursor: CursorWrapper) -> str:
        """Which setting lets a commit be lost after it was confirmed, or ''."""
        return ""

    def setup_problem(self) -> str:
        """Why this connection's settings will hurt, or ''."""
        return ""
