"""PostgreSQL: one statement claims, past whatever others hold."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, ClassVar
from weakref import ref

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.utils import Error, InternalError, OperationalError

from ..conf import conf
from ..states import CLAIMABLE
from . import postgresql_arrays as arrays
from . import postgresql_server as server
from .base import SILENCE_SECONDS, Dialect
from .floors import candidates_above
from .pooler import TransactionSettings
from .postgresql_notify import CHANNEL, RECHECK_SECONDS, Notifier
from .postgresql_turns import AdvisoryTurns, takes_several_statements
from .several_queues import locked_in_turn
from .types import Claim, ConnectionRoom, ErrorKind, Inserted, Row, Statement

ERROR_KINDS = {
    "40001": ErrorKind.AGAIN,  # serialization failure
    "40P01": ErrorKind.AGAIN,  # deadlock
    "55P03": ErrorKind.AGAIN,  # lock timeout
    "57014": ErrorKind.AGAIN,  # cancelled, by a person or a timeout
    "57P01": ErrorKind.LOST,  # terminated by an administrator
    "57P02": ErrorKind.LOST,  # crash
    "57P03": ErrorKind.LOST,  # starting up
    "57P05": ErrorKind.LOST,  # closed for inactivity
    "25P03": ErrorKind.LOST,  # closed for inactivity in a transaction
    "25P04": ErrorKind.LOST,  # closed since its transaction took too long
    "25006": ErrorKind.READ_ONLY,
    "53100": ErrorKind.FULL,
    "53300": ErrorKind.LOST,  # too many connections
    "57P04": ErrorKind.LOST,  # the database was dropped
    # A pooler answers a statement with what a connect of its own has met with.
    "28000": ErrorKind.LOST,  # the role may not log in
    "28P01": ErrorKind.LOST,  # wrong password
    "3D000": ErrorKind.LOST,  # no such database: one that is restored
}


HEADS = "dbqueue_heads"  # what a statement calls the first jobs that it has found
LOCKED = " FOR UPDATE SKIP LOCKED"
OFF = ("enable_seqscan", "enable_sort", "jit")  # how to read a table without its indexes


class PostgreSQL(Dialect):
    impatient_options: ClassVar[Mapping[str, int]] = {"connect_timeout": 2}
    now = "CLOCK_TIMESTAMP()"
    clock_pattern = r"(?:CLOCK|STATEMENT)_TIMESTAMP\(\)"
    instant_literal = "TIMESTAMPTZ '{}+00'"
    reads_past = "CURRENT_SETTING('transaction_isolation') IN ('repeatable read', 'serializable')"
    read_newest = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
    minute = "FLOOR(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) / 60)"
    silent_after_news = RECHECK_SECONDS
    has_lateral = True
    bounds_rows = False
    # Whether a notification came that nobody has asked for yet, or may have been missed.
    _has_news = False
    _is_listening = False
    # Of a connection of our own whose sessions are others', too.
    _shared: TransactionSettings | None = None
    # The session that was begun as our own.
    _own: ref[Any] | None = None

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        super().__init__(connection)
        self.notifier = Notifier(self)
        self.turns = AdvisoryTurns()

    def now_plus(self, seconds: str) -> str:
        return f"(CLOCK_TIMESTAMP() + ({seconds}) * INTERVAL '1 second')"

    def is_past(self, instant: str, seconds: str = "0") -> str:
        # CLOCK_TIMESTAMP() may change from row to row, so no index is searched with it.
        return f"{instant} <= STATEMENT_TIMESTAMP() - ({seconds}) * INTERVAL '1 second'"

    def seconds_until(self, instant: str) -> str:
        # Of 'infinity' there is an epoch, but no difference.
        return f"(EXTRACT(EPOCH FROM {instant}) - EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()))"

    @staticmethod
    def readable_expression(instant: str) -> str:
        # Else the driver answers in the session's zone.
        return f"({instant} AT TIME ZONE 'UTC')"

    @classmethod
    def readable_column(cls, instant: str) -> str:
        first, last = "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"
        readable = f"{instant} BETWEEN '{first}' AND '{last}'"
        return f"(CASE WHEN {readable} THEN {cls.readable_expression(instant)} END)"

    def claim(self, cursor: CursorWrapper, claim: Claim) -> list[Row]:
        if claim.others:
            ready, params = locked_in_turn(claim)
        elif claim.floors:
            begin, end = f"SELECT {claim.pk} FROM (", f"{LOCKED}) AS of_one"
            ready, params = candidates_above(self, claim, claim.limit, begin, end)
        else:
            ready, params = _ready(claim)
        # ANY(ARRAY(..)) runs the sub-select once; IN (..) may run it again and claim too many.
        sql = (
            f"UPDATE {claim.table} SET {claim.sets} WHERE {claim.pk} = ANY(ARRAY({ready})) "
            f"RETURNING {claim.columns}"
        )
        values = [*claim.params, *params]
        if self.turns.would_help(claim) and self._is_for_turns(cursor):
            return self.turns.claim(cursor, claim, (sql, values))
        cursor.execute(sql, values)
        return list(cursor.fetchall())

    def gains_by_floors(self) -> bool:
        return True

    def heads(self, table: str, pk: str, first: str, others: str, most: int) -> str:
        found = f"SELECT queue, priority, {pk} FROM {table} WHERE {CLAIMABLE} AND"
        order = f"ORDER BY queue, priority, {pk} LIMIT 1"
        following = f"{found} queue > {HEADS}.queue {others} {order}"
        return (
            f"WITH RECURSIVE {HEADS} AS (({found} {first} {order}) UNION ALL "
            f"SELECT one.* FROM {HEADS}, LATERAL ({following}) AS one) "
            f"SELECT * FROM {HEADS} LIMIT {most}"
        )

    def among_numbers(self, column: str, keys: Sequence[int]) -> tuple[str, Sequence[Any]]:
        # One value is quicker to parse and to plan than a list of them.
        return f"{column} = ANY('{{{','.join(map(str, keys))}}}'::bigint[])", ()

    def by_prefix(self, column: str) -> str:
        return f"UPPER({column}) text_pattern_ops"

    def insert(self, cursor: CursorWrapper, sql: str, params: Sequence[Any], pk: str) -> Any:
        cursor.execute(f"{sql} RETURNING {pk}", params)
        [key] = cursor.fetchone()
        return key

    def insert_of(self, table: str, columns: Sequence[Inserted], rows: Sequence[Row]) -> Statement:
        return arrays.insert_of(table, columns, rows) or super().insert_of(table, columns, rows)

    def insert_after(
        self,
        cursor: CursorWrapper,
        first: Statement,
        sql: str,
        params: Sequence[Any],
        pk: str,
        is_alone: bool,
    ) -> Any | None:
        update, given = first
        into, _, values = sql.rpartition(" VALUES ")
        cursor.execute(
            f"WITH first AS ({update} RETURNING 1) {into} SELECT {values.strip('()')} FROM first "
            f"RETURNING {pk}",
            [*given, *params],
        )
        found = cursor.fetchone()
        return found and found[0]

    @staticmethod
    @cache
    def can_notify() -> bool:
        return find_spec("psycopg") is not None  # Django prefers it to psycopg2

    def listen(self) -> None:
        # Through a pooler others would hear what we ask for, and we would not.
        self._is_listening = conf["NOTIFY"] and self.can_notify() and not self.shares_sessions
        if not self._is_listening:
            return
        session = self.connection.connection
        # Some come in with the answer of another statement.
        session.add_notify_handler(self._hear)
        with self.connection.cursor() as cursor:
            cursor.execute(f"LISTEN {CHANNEL}")
        self._has_news = True

    def _hear(self, _: object) -> None:
        self._has_news = True

    @property
    def descriptor(self) -> int | None:
        session = self.connection.connection
        if session is None or not self._is_listening:
            return None
        with self.connection.wrap_database_errors:
            return int(session.fileno())

    @property
    def socket_descriptor(self) -> int | None:
        session = self.connection.connection
        return None if session is None or session.closed else int(session.fileno())

    def has_news(self) -> bool:
        session = self.connection.connection
        if session is not None and self._is_listening:
            with self.connection.wrap_database_errors:
                session.pgconn.consume_input()
                while session.pgconn.notifies():
                    self._has_news = True
        news, self._has_news = self._has_news, False
        return news

    def notify(self) -> None:
        if conf["NOTIFY"] and self.can_notify():
            self.notifier.notify()

    def own_session(self) -> str:
        return self._set_unless_pooled(lock_timeout="2s")

    def _set_unless_pooled(self, **settings: str) -> str:
        """Answers no row where another process of the server answers than was connected to: what a
        pooler's session is set to would stay for the next one who gets that session."""
        pid = self.connection.connection.info.backend_pid
        each = (f"set_config('{name}', '{value}', false)" for name, value in settings.items())
        return f"SELECT {', '.join(each)} WHERE pg_backend_pid() = {pid}"

    def begin_own_session(self, cursor: CursorWrapper) -> None:
        if self._shared is not None:
            self._shared.end()
        super().begin_own_session(cursor)
        self._shared = None if cursor.fetchall() else TransactionSettings(self.connection)
        self.shares_sessions = self._shared is not None
        self._own = ref(self.connection.connection)

    def _is_for_turns(self, cursor: CursorWrapper) -> bool:
        """A lock of the session's would be somebody else's behind a pooler."""
        is_own = self._own is not None and self._own() is self.connection.connection
        return is_own and not self.shares_sessions and takes_several_statements(cursor)

    def keep_to_indexes(self) -> None:
        # A table that was analyzed while it was nearly empty counts as such until the next time:
        # all of it would be read, and sorted, for each claim. Every look of ours has its index.
        # Where there is none, a plan that is forced counts as expensive enough to be compiled.
        self._set(**dict.fromkeys(OFF, "off"))

    def end_silent_transactions(self, seconds: int = SILENCE_SECONDS) -> None:
        self._set(idle_in_transaction_session_timeout=f"{seconds}s")

    def _set(self, **settings: str) -> None:
        """For all that this connection does from here on."""
        if self._shared is None:
            with self.connection.cursor() as cursor:
                cursor.execute(self._set_unless_pooled(**settings))
                if cursor.fetchall():
                    return
            self._shared, self.shares_sessions = TransactionSettings(self.connection), True
        self._shared.set(**settings)

    def connection_room(self, cursor: CursorWrapper) -> ConnectionRoom:
        return server.connection_room(cursor)

    def is_given_again(self, table: str, pk: str) -> str:
        # Where nobody told it of keys: a dump, or a replica by logical replication.
        name = "pg_get_serial_sequence('{}', '{}')".format(table, pk.strip('"'))
        return f"{pk} > ({server.LAST_NUMBER.format(name)})"

    def upkeep_problem(self, cursor: CursorWrapper, table: str) -> str:
        return server.vacuum_problem(cursor, table)

    def cautions(self, cursor: CursorWrapper) -> Iterator[tuple[str, str]]:
        return server.cautions(cursor, self.connection.connection.info.backend_pid)

    def durability_problem(self, cursor: CursorWrapper) -> str:
        for setting in ("fsync", "synchronous_commit"):
            cursor.execute(f"SHOW {setting}")
            if cursor.fetchone()[0] == "off":
                return f"{setting} is off"
        return ""

    def kind_of_code(self, error: Error) -> ErrorKind | None:
        state = getattr(error.__cause__, "sqlstate", None)
        if state is not None:
            return ErrorKind.LOST if state.startswith("08") else ERROR_KINDS.get(state)
        # No server answered that could name a state, or psycopg was answered twice at a BEGIN.
        return ErrorKind.LOST if isinstance(error, OperationalError | InternalError) else None


def _ready(claim: Claim) -> Statement:
    sql = (
        f"SELECT {claim.pk} FROM {claim.table} WHERE {CLAIMABLE} AND queue = %s{claim.only} "
        f"ORDER BY priority, {claim.pk} LIMIT %s{LOCKED}"
    )
    return sql, [claim.queue, claim.limit]
