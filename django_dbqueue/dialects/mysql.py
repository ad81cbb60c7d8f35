"""MariaDB and MySQL: read candidates without a lock, then let one UPDATE by key decide.

No locking read touches the ready index, so there are no gap locks and no deadlocks, and dead
index entries at the head of the queue cost less.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.utils import Error

from ..states import CLAIMABLE
from . import galera
from . import mysql_server as server
from .base import NOTHING_TO_DO, SILENCE_SECONDS, Dialect, rollback_on_error
from .claim_turns import ClaimTurns
from .floors import candidates_above
from .several_queues import candidates
from .types import Claim, ConnectionRoom, ErrorKind, Row, Statement

ERROR_KINDS = {
    1213: ErrorKind.AGAIN,  # deadlock
    1205: ErrorKind.AGAIN,  # lock wait timeout
    1020: ErrorKind.AGAIN,  # record has changed since last read (MariaDB 11.6)
    1317: ErrorKind.AGAIN,  # query interrupted
    1969: ErrorKind.AGAIN,  # max_statement_time, MariaDB
    3024: ErrorKind.AGAIN,  # max_execution_time, MySQL
    3101: ErrorKind.AGAIN,  # rolled back by Group Replication: another server wrote the same row
    2002: ErrorKind.LOST,
    2003: ErrorKind.LOST,
    2006: ErrorKind.LOST,
    2013: ErrorKind.LOST,
    2014: ErrorKind.LOST,  # out of step with the server
    2026: ErrorKind.LOST,  # TLS
    2055: ErrorKind.LOST,
    4031: ErrorKind.LOST,  # closed for inactivity
    1053: ErrorKind.LOST,  # server shutdown in progress
    1927: ErrorKind.LOST,  # connection was killed
    1040: ErrorKind.LOST,  # too many connections
    1203: ErrorKind.LOST,  # too many connections of this user
    1226: ErrorKind.LOST,  # a limit of this user's
    1047: ErrorKind.LOST,  # a Galera node outside its cluster
    1159: ErrorKind.LOST,  # time-out while reading
    1161: ErrorKind.LOST,  # time-out while writing
    1180: ErrorKind.LOST,  # at a commit: a Galera node that has just left its cluster
    3032: ErrorKind.LOST,  # offline mode, MySQL
    # A proxy answers a statement with what a connect of its own has met with.
    1044: ErrorKind.LOST,  # the account may not use the database
    1045: ErrorKind.LOST,  # access denied
    1049: ErrorKind.LOST,  # no such database: one that is restored
    1129: ErrorKind.LOST,  # the host is blocked after many connects that failed
    1130: ErrorKind.LOST,  # the host is not let in
    1862: ErrorKind.LOST,  # the password has expired
    3118: ErrorKind.LOST,  # the account is locked, MySQL
    4151: ErrorKind.LOST,  # the account is locked, MariaDB
    9001: ErrorKind.LOST,  # ProxySQL reaches no server in time
    9002: ErrorKind.LOST,  # ProxySQL reaches no server
    9004: ErrorKind.LOST,  # ProxySQL takes the server for gone
    1290: ErrorKind.READ_ONLY,
    1836: ErrorKind.READ_ONLY,
    1792: ErrorKind.READ_ONLY,  # transaction_read_only
    3100: ErrorKind.READ_ONLY,  # Group Replication takes no commits: it has left its group
    1114: ErrorKind.FULL,
    1021: ErrorKind.FULL,
}
TRIES = 4
NO_TURN = nullcontext(enter_result=False)
REFUSED = 2**63  # no key: it is greater than the greatest bigint


class MySQL(Dialect):
    impatient_options: ClassVar[Mapping[str, int]] = {"connect_timeout": 2}
    connects_in_time = False
    compares_rows = seeks_in_recursion = False
    name_collation = "utf8mb4_bin"
    now = "UTC_TIMESTAMP(6)"
    clock_pattern = r"UTC_TIMESTAMP\(6?\)"
    instant_literal = "TIMESTAMP'{}'"
    minute = "TIMESTAMPDIFF(MINUTE, '1970-01-01', UTC_TIMESTAMP())"

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        super().__init__(connection)
        self.turns = ClaimTurns()
        # The claim that was committed last and whose rows were not read yet, with their keys.
        self.unread: tuple[Claim, list[Any]] | None = None
        self._is_node: bool | None = None  # asked once

    def now_plus(self, seconds: str) -> str:
        return f"(UTC_TIMESTAMP(6) + INTERVAL ({seconds}) SECOND)"

    def seconds_until(self, instant: str) -> str:
        return f"(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), {instant}) / 1000000)"

    def by_key(self, table: str) -> str:
        # Else the optimizer may go through (status, ..) and wait for locks on foreign rows.
        return f"{table} FORCE INDEX (PRIMARY)"

    def among_numbers(self, column: str, keys: Sequence[int]) -> tuple[str, Sequence[Any]]:
        return f"{column} IN ({', '.join(map(str, keys))})", ()

    def delete_by_key(self, table: str) -> str:
        return f"DELETE {table} FROM {table} FORCE INDEX (PRIMARY)"

    def insert_after(
        self,
        cursor: CursorWrapper,
        first: Statement,
        sql: str,
        params: Sequence[Any],
        pk: str,
        is_alone: bool,
    ) -> Any | None:
        if not self._takes_several:
            return super().insert_after(cursor, first, sql, params, pk, is_alone)
        update, given = first
        into, _, values = sql.rpartition(" VALUES ")
        insert = f"{into} SELECT {values.strip('()')} FROM DUAL WHERE ROW_COUNT() = 1"
        both = f"BEGIN; {update}; {insert}; COMMIT" if is_alone else f"{update}; {insert}"
        rollback = rollback_on_error(lambda: cursor.execute("ROLLBACK"))
        with rollback if is_alone else NOTHING_TO_DO:
            cursor.execute(both, [*given, *params])
            for _ in range(1 + is_alone):
                cursor.nextset()
            key = cursor.lastrowid if cursor.rowcount else None
            while cursor.nextset():
                pass
            return key

    @property
    def _takes_several(self) -> bool:
        """Whether the driver sends several statements at once: each trip costs as much as one."""
        options = self.connection.settings_dict.get("OPTIONS", {})
        driver: Any = self.connection.Database  # type: ignore[attr-defined]
        return driver.__name__ == "MySQLdb" and bool(options.get("multi_statements", True))

    @property
    def sees_commits(self) -> bool:
        # What a snapshot of REPEATABLE READ counts is old, and nothing fails.
        level = getattr(self.connection, "isolation_level", None)
        return level in {"read committed", "read uncommitted"}

    def claim(self, cursor: CursorWrapper, claim: Claim) -> list[Row]:
        if self.unread is not None and self.unread[0] is claim:
            # The same claim once more: it was the reading that failed.
            return self._read(cursor, *self.unread)
        for _ in range(TRIES):
            # The nodes of a cluster know nothing of each other's locks.
            takes_turns = self.turns.would_help(claim) and not self.is_node
            with self.turns.turn(cursor, claim) if takes_turns else NO_TURN as is_alone:
                keys = self._candidates(cursor, claim, is_alone)
                count = self._update(cursor, claim, keys) if keys else 0
            self.lost_some = self.lost_some or count < len(keys)
            self.turns.note(claim.place, len(keys), conflict=count < len(keys))
            if not keys:
                return []
            if count:
                self.unread = claim, keys
                return self._read(cursor, claim, keys)
        return []

    def _update(self, cursor: CursorWrapper, claim: Claim, keys: list[Any]) -> int:
        among, these = self.among(claim.pk, keys)
        # Of the queue, too: a person may just have moved some of them to another one.
        names = ", ".join(["%s"] * len(claim.queues))
        cursor.execute(
            f"UPDATE {self.by_key(claim.table)} SET {claim.sets} "
            f"WHERE {CLAIMABLE} AND queue IN ({names}) AND {among}",
            [*claim.params, *claim.queues, *these],
        )
        return int(cursor.rowcount)

    def _read(self, cursor: CursorWrapper, claim: Claim, keys: list[Any]) -> list[Row]:
        """The rows that a claim has stamped."""
        among, these = self.among(claim.pk, keys)
        if type(keys[0]) is int and keys[-1] - keys[0] == len(keys) - 1:
            # None is left out: a range takes half the time.
            among, these = f"{claim.pk} BETWEEN %s AND %s", [keys[0], keys[-1]]
        cursor.execute(
            f"SELECT {claim.columns} FROM {self.by_key(claim.table)} WHERE {among} AND owner = %s",
            [*these, claim.owner],
        )
        found = list(cursor.fetchall())
        self.unread = None
        return found

    def _candidates(self, cursor: CursorWrapper, claim: Claim, is_alone: bool) -> list[Any]:
        """Keys to try, ascending; where others claim too, a random part of a wider window."""
        wide = claim.place in self.turns.contended and not (is_alone or claim.in_order)
        window = 4 * claim.limit + 20 if wide else claim.limit
        params: Sequence[Any] = claim.queue, window
        ready = (
            f"SELECT {claim.pk} FROM {claim.table} WHERE {CLAIMABLE} AND queue = %s{claim.only} "
            f"ORDER BY priority, {claim.pk} LIMIT %s"
        )
        if claim.others:
            ready, params = candidates(claim, window, "(", ")")
        elif claim.floors:
            ready, params = candidates_above(self, claim, window, "(", ")")
        cursor.execute(ready, params)
        keys = [key for (key,) in cursor.fetchall()]
        start = random.randint(0, max(0, len(keys) - claim.limit))
        self.lost_some = start > 0
        return sorted(keys[start : start + claim.limit])

    def gains_by_floors(self) -> bool:
        # Claims from floors keep the order. On several nodes of a cluster, which take no turns, all
        # of them would claim the same jobs.
        return not self.is_node

    def insert_many(
        self, cursor: CursorWrapper, sql: str, params: Sequence[Any], pk: str, count: int
    ) -> list[Any]:
        if self.connection.mysql_is_mariadb:  # type: ignore[attr-defined]
            return super().insert_many(cursor, sql, params, pk, count)
        # MySQL cannot return rows, and numbers those of one INSERT ... VALUES without a gap.
        cursor.execute(sql, params)
        first = cursor.lastrowid
        cursor.execute("SELECT @@auto_increment_increment")
        [step] = cursor.fetchone()
        return [first + number * step for number in range(count)]

    def insert_new(
        self, cursor: CursorWrapper, sql: str, params: Sequence[Any], pk: str
    ) -> Any | None:
        # Under FOUND_ROWS, which Django sets, the row count is 1 either way, and which id a refused
        # row reports differs between the servers: so the update, which changes nothing, says one.
        mark = f"priority = IF(LAST_INSERT_ID({REFUSED}), priority, priority)"
        cursor.execute(f"{sql} ON DUPLICATE KEY UPDATE {mark}", params)
        return None if cursor.lastrowid == REFUSED else cursor.lastrowid

    @property
    def socket_descriptor(self) -> int | None:
        session = self.connection.connection
        # PyMySQL in the place of mysqlclient has none.
        is_open = session is not None and session.open and hasattr(session, "fileno")
        return int(session.fileno()) if is_open else None

    def own_session(self) -> str:
        # The second is for what locks whole tables: ALTER TABLE, LOCK TABLES, a backup.
        return "SET SESSION innodb_lock_wait_timeout = 2, lock_wait_timeout = 2"

    def end_silent_transactions(self, seconds: int = SILENCE_SECONDS) -> None:
        # MySQL knows no such limit but the one for all silence.
        is_mariadb = self.connection.mysql_is_mariadb  # type: ignore[attr-defined]
        name = "idle_transaction_timeout" if is_mariadb else "wait_timeout"
        with self.connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {name} = {seconds if is_mariadb else 6 * seconds}")

    @property
    def is_node(self) -> bool:
        if self._is_node is None:
            with self.connection.cursor() as cursor:
                self._is_node = galera.is_node(cursor)
        return self._is_node

    def catch_up(self) -> bool:
        connection = self.connection
        if connection.in_atomic_block or not connection.get_autocommit():
            return False
        if self.is_node:
            with connection.cursor() as cursor:
                cursor.execute(galera.CATCH_UP)
        return self.is_node

    def kind_of_code(self, error: Error) -> ErrorKind | None:
        code = error.args[0] if error.args else None
        return ERROR_KINDS.get(code) if isinstance(code, int) else None

    def durability_problem(self, cursor: CursorWrapper) -> str:
        cursor.execute("SELECT @@innodb_flush_log_at_trx_commit")
        value = str(cursor.fetchone()[0])
        return "" if value == "1" else f"innodb_flush_log_at_trx_commit is {value}"

    def cautions(self, cursor: CursorWrapper) -> Iterator[tuple[str, str]]:
        yield from server.cautions(cursor)
        if self.is_node and (problem := galera.spread(self.connection)):
            yield "dbqueue.W015", problem

    def connection_room(self, cursor: CursorWrapper) -> ConnectionRoom:
        return server.connection_room(cursor)

    def engine_problem(self, cursor: CursorWrapper, table: str) -> str:
        return server.engine_problem(cursor, table)
