"""SQLite: one writer at a time, so short statements and our own short naps between tries."""

import random
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Self

from django.db.backends.utils import CursorWrapper
from django.db.utils import Error

from ..states import CLAIMABLE
from .base import Dialect, rollback_on_error
from .several_queues import candidates
from .types import Claim, ErrorKind, Inserted, Row, Statement

NAMED = "dbqueue_named_queues"  # what a statement calls the queues that it has found
PATIENCE = 2.0  # seconds until a busy database is reported to the caller
_lenient = threading.local()


class Undecoded(str):
    """Text that is not UTF-8, which only a hand can write: as people may read it, and its bytes."""

    __slots__ = ("raw",)
    raw: bytes

    def __new__(cls, raw: bytes) -> Self:
        self = super().__new__(cls, raw.decode(errors="backslashreplace"))
        self.raw = raw
        return self

    def __repr__(self) -> str:
        return repr(self.raw)

    def __conform__(self, protocol: object) -> bytes | None:
        """What a statement gets."""
        return self.raw if protocol is sqlite3.PrepareProtocol else None


def decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Undecoded(raw)


class SQLite(Dialect):
    one_writer = True
    bounds_rows = False
    has_typed_columns = False
    look_every = 0.005
    # What data_version said last.
    _version: int | None = None
    setup_hint = (
        'Set OPTIONS = {"transaction_mode": "IMMEDIATE", "timeout": 20, '
        '"init_command": "PRAGMA journal_mode=WAL"}'
    )
    # The clock ticks in milliseconds; the zeros keep the text sortable with Python's.
    now = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f000', 'now')"
    minute = "CAST(STRFTIME('%%s', 'now') AS INTEGER) / 60"
    clock_pattern = "'now'"
    instant_literal = "'{}'"

    def now_plus(self, seconds: str) -> str:
        return f"STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f000', 'now', ({seconds}) || ' seconds')"

    def seconds_until(self, instant: str) -> str:
        return f"((JULIANDAY({instant}) - JULIANDAY('now')) * 86400)"

    @staticmethod
    def readable_expression(instant: str) -> str:
        # Without a declared type, of which sqlite3 would make a date, or fail.
        return f"CAST({instant} AS TEXT)"

    def insert_of(self, table: str, columns: Sequence[Inserted], rows: Sequence[Row]) -> Statement:
        filled = [one for one in columns if "%s" in one.text]
        if not filled:
            return super().insert_of(table, columns, rows)
        # What is the same in all rows is parsed once.
        place = {one.name: f"column{number}" for number, one in enumerate(filled, start=1)}
        texts = [one.text.replace("%s", place.get(one.name, "")) for one in columns]
        row = f"({', '.join(['%s'] * len(filled))})"
        sql = (
            f"INSERT INTO {table} ({', '.join(one.name for one in columns)}) "
            f"SELECT {', '.join(texts)} FROM (VALUES {', '.join([row] * len(rows))})"
        )
        return sql, list(chain.from_iterable(rows))

    def claim(self, cursor: CursorWrapper, claim: Claim) -> list[Row]:
        params: Sequence[Any] = claim.queue, claim.limit
        ready = (
            f"SELECT {claim.pk} "
            f"FROM {claim.table} WHERE {CLAIMABLE} AND queue = {self.placeholder(claim.queue)}"
            f"{claim.only} ORDER BY priority, {claim.pk} LIMIT %s"
        )
        if claim.others:
            ready, params = candidates(claim, claim.limit, f"SELECT {claim.pk} FROM (", ")")
        cursor.execute(
            f"UPDATE {claim.table} SET {claim.sets} WHERE {claim.pk} IN ({ready}) "
            f"RETURNING {claim.columns}",
            [*claim.params, *params],
        )
        return list(cursor.fetchall())

    def heads(self, table: str, pk: str, first: str, others: str, most: int) -> str:
        # Qualified: a column of the project's may have any name.
        least = f"SELECT MIN(queue) FROM {table} WHERE {CLAIMABLE} AND"
        key = f"SELECT {pk} FROM {table} WHERE {CLAIMABLE} AND queue = {NAMED}.queue_name"
        following = f"{least} queue > {NAMED}.queue_name {others}"
        return (
            f"WITH RECURSIVE {NAMED}(queue_name) AS (SELECT ({least} {first}) UNION ALL SELECT "
            f"({following}) FROM {NAMED} WHERE {NAMED}.queue_name IS NOT NULL LIMIT {most}) "
            f"SELECT {table}.queue, {table}.priority, {table}.{pk} FROM {NAMED} JOIN {table} "
            f"ON {table}.{pk} = ({key} ORDER BY priority, {pk} LIMIT 1)"
        )

    def among_numbers(self, column: str, keys: Sequence[int]) -> tuple[str, Sequence[Any]]:
        # Always the same statement, so it is prepared already.
        return f"{column} IN (SELECT value FROM json_each(%s))", [str(list(keys))]

    def read_column(self, name: str) -> str:
        # In double quotes SQLite takes the name of no column for a text.
        bare = name.strip('"').replace("`", "``")
        return f"`{bare}`"

    def by_prefix(self, column: str) -> str:
        return f"{column} COLLATE NOCASE"

    def placeholder(self, value: Any) -> str:
        # A parameter can be no such text, but its bytes can.
        return "CAST(%s AS TEXT)" if isinstance(value, Undecoded) else "%s"

    @contextmanager
    def decode_leniently(self) -> Iterator[None]:
        self.connection.ensure_connection()
        session = self.connection.connection
        outer, _lenient.session = getattr(_lenient, "session", None), session
        before, session.text_factory = session.text_factory, decoded
        try:
            yield
        finally:
            # Where threads share a connection, another one may have been here when we came.
            is_theirs = before is decoded and outer is not session
            session.text_factory = str if is_theirs else before
            _lenient.session = outer

    def listen(self) -> None:
        self._version = self._data_version()

    def has_news(self) -> bool:
        before, self._version = self._version, self._data_version()
        return before != self._version

    def _data_version(self) -> int:
        """Changes with every commit of another connection; past Django, for it is asked often."""
        with self.connection.wrap_database_errors:
            [version] = self.connection.connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    @contextmanager
    def _transaction(self, cursor: CursorWrapper) -> Iterator[None]:
        # Past Django, for which each statement takes longer than for SQLite.
        session, wrapped = self.connection.connection, self.connection.wrap_database_errors
        with wrapped:
            session.execute("BEGIN IMMEDIATE")
        with rollback_on_error(session.rollback):
            yield
            with wrapped:
                session.execute("COMMIT")

    def own_session(self) -> str:
        # SQLite's own busy handler naps for fixed times, up to 100 ms, and starves claimers.
        return "PRAGMA busy_timeout = 0"

    def kind_of_code(self, error: Error) -> ErrorKind | None:
        name: str = getattr(error.__cause__, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
            return ErrorKind.AGAIN
        if name.startswith("SQLITE_READONLY"):
            return ErrorKind.READ_ONLY
        if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")):
            return ErrorKind.LOST
        return ErrorKind.FULL if name == "SQLITE_FULL" else None

    def retry_pauses(self) -> Iterator[float]:
        give_up = time.monotonic() + PATIENCE
        longest = 0.0015
        while time.monotonic() < give_up:
            yield random.uniform(0.0003, longest)
            # Long ones at last: of many that wait, each try costs more than it gains.
            longest = min(longest * 1.5, 0.1)

    def durability_problem(self, cursor: CursorWrapper) -> str:
        off = cursor.execute("PRAGMA synchronous").fetchone()[0] == 0
        return "PRAGMA synchronous is OFF" if off else ""

    def setup_problem(self) -> str:
        if self.connection.is_in_memory_db():  # type: ignore[attr-defined]
            return ""  # of one process, as the tests of a project make it
        options = self.connection.settings_dict.get("OPTIONS", {})
        if str(options.get("transaction_mode", "")).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
            return 'OPTIONS lacks "transaction_mode": "IMMEDIATE": writers will fail at once'
        with self.connection.cursor() as cursor:
            mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
        if mode.upper() == "WAL":
            return ""
        return (
            f"the journal mode is {mode}, not WAL: readers and the one writer will block each other"
        )
