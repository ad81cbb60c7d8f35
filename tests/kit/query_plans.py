"""Reading query plans: what each database says about how it reaches the rows of a statement."""

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from tests.kit.waiting import wait_until

TENS = 10
IN_TURN = re.compile(
    r"SET LOCAL .*?pg_advisory_lock\S+ (.*); SELECT pg_advisory_unlock\S+", re.DOTALL
)


@dataclass(frozen=True)
class Statement:
    sql: str
    params: Any

    @property
    def is_write(self) -> bool:
        return self.sql.startswith(("UPDATE", "DELETE", "INSERT"))

    def __str__(self) -> str:
        return self.sql if len(self.sql) < 400 else f"{self.sql[:300]} .. {self.sql[-100:]}"


def big_rows(*, full: bool) -> int:
    """How many rows a table has whose plans are looked at; DBQUEUE_TEST_ROWS sets it."""
    asked = os.environ.get("DBQUEUE_TEST_ROWS")
    return int(asked or (1_000_000 if full else 200_000))


def update_statistics(*tables: str) -> None:
    """Have the planner know what is in them; what earlier tests left is not to be counted, either:
    PostgreSQL would guess, or know a table as it was when its own process last came by."""
    verbs = {"mysql": "ANALYZE TABLE", "postgresql": "VACUUM ANALYZE", "sqlite": "ANALYZE"}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"{verbs[connection.vendor]} {connection.ops.quote_name(table)}")


@contextmanager
def captured(table: str) -> Iterator[list[Statement]]:
    """The statements that are run on a table meanwhile, as they are sent; of a claim that takes its
    turn what stands between the lock and its end."""
    statements: list[Statement] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if table in sql:
            in_turn = IN_TURN.fullmatch(sql)
            statements.append(Statement(in_turn[1] if in_turn else sql.strip(), params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield statements


def complaints(statement: Statement, table: str) -> list[str]:
    """What is wrong with the plan of a statement: scans, sorts, a write by a secondary index."""
    judge = {"mysql": _mysql, "postgresql": _postgresql, "sqlite": _sqlite}[connection.vendor]
    return [f"{text}: {statement}" for text in judge(statement, table)]


@contextmanager
def judged(table: str) -> Iterator[list[str]]:
    """What is wrong with the plans of the statements that are run on a table meanwhile, each asked
    for just before it runs."""
    found: list[str] = []

    def judge(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if table in sql and not sql.startswith("EXPLAIN"):
            found.extend(complaints(Statement(sql.strip(), params), table))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(judge):
        yield found


def indexes_written_by(statement: Statement, table: str) -> set[str]:
    """Those by which an UPDATE or DELETE reaches its rows; the name of the one of the primary key
    ends in "primary" for each database."""
    if not statement.is_write or statement.sql.startswith("INSERT"):
        return set()
    find = {"mysql": _mysql_index, "postgresql": _postgresql_index, "sqlite": _sqlite_index}
    return set(find[connection.vendor](statement, table))


def _mysql_index(statement: Statement, table: str) -> Iterator[str]:
    for step in _explained("EXPLAIN FORMAT=TRADITIONAL", statement):
        if step["table"] == table:
            yield str(step["key"]).lower()


def _postgresql_index(statement: Statement, table: str) -> Iterator[str]:
    [answer] = _explained("EXPLAIN (FORMAT JSON)", statement)
    for node in _nodes(_plan(answer)):
        kind, is_its = node["Node Type"], node.get("Relation Name", table) == table
        if "Scan" in kind and "Bitmap Heap" not in kind and is_its:
            yield node.get("Index Name", kind).replace("_pkey", "_primary")


def _sqlite_index(statement: Statement, table: str) -> Iterator[str]:
    for step in _explained("EXPLAIN QUERY PLAN", statement):
        if table in step["detail"]:
            found = "INTEGER PRIMARY KEY" in step["detail"]
            yield "primary" if found else step["detail"]


def _explained(prefix: str, statement: Statement) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(f"{prefix} {statement.sql}", statement.params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def read_by(statement: Statement) -> int:
    """How many pages of the table and its indexes a SELECT reads on MariaDB, and on PostgreSQL that
    or the one in an UPDATE; what it does is undone."""
    if connection.vendor == "mysql":
        writers = _writers()
        # Another process's tests write for long in one transaction: on a busy machine for minutes.
        wait_until(lambda: not writers & _writers(), seconds=600)
        [answer] = _explained("ANALYZE FORMAT=JSON", statement)
        return sum(map(int, re.findall(r'"pages_accessed": (\d+)', answer["ANALYZE"])))
    return _buffers(_executed(statement))


def _writers() -> set[int]:
    """The open transactions of others: while one is older than an entry of an index, a look that
    meets the entry reads its row, too."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT trx_id FROM information_schema.innodb_trx "
            "WHERE trx_rows_modified > 0 AND trx_mysql_thread_id <> CONNECTION_ID()"
        )
        return {number for (number,) in cursor.fetchall()}


def _executed(statement: Statement) -> dict[str, Any]:
    with transaction.atomic():
        [answer] = _explained("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)", statement)
        transaction.set_rollback(True)
    part = _plan(answer)
    if part["Node Type"] == "ModifyTable":
        [part] = [one for one in part["Plans"] if one["Parent Relationship"] == "InitPlan"]
    return part


def _buffers(part: dict[str, Any]) -> int:
    return int(part["Shared Hit Blocks"] + part["Shared Read Blocks"])


def _rows_scanned(part: dict[str, Any]) -> int:
    """Those that were passed over, too: many of them fit into one buffer."""
    scans = [node for node in _nodes(part) if "Plans" not in node]
    return sum(
        node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        for node in scans
    )


def _mysql(statement: Statement, table: str) -> Iterator[str]:
    for step in _explained("EXPLAIN FORMAT=TRADITIONAL", statement):
        if step["table"] != table or step["select_type"] == "INSERT":
            continue
        extra = step["Extra"] or ""
        if step["type"] in {"ALL", "index"}:
            yield f"reads all of {step['key'] or 'the table'}"
        if "filesort" in extra or "temporary" in extra:
            yield f"sorts ({extra})"
        if statement.is_write and step["key"] != "PRIMARY":
            yield f"writes by {step['key']}"


def _postgresql(statement: Statement, table: str) -> Iterator[str]:
    [answer] = _explained("EXPLAIN (FORMAT JSON)", statement)
    for node in _nodes(_plan(answer)):
        kind = node["Node Type"]
        if "Sort" in kind:
            yield f"sorts by {node['Sort Key']}"
        if "clock_timestamp" in str(node.get("Filter", "")):
            yield f"searches no index with the clock: {node['Filter']}"
        if node.get("Relation Name") == table and kind == "Seq Scan":
            yield "reads all of the table"
        # A walk without a condition is fine through an index that is small.
        walks = kind.startswith("Index") and "Index Cond" not in node and "Filter" in node
        if walks and node["Index Name"].endswith("_pkey"):
            yield f"walks through {node['Index Name']} and filters"


def _plan(answer: dict[str, Any]) -> dict[str, Any]:
    plan = answer["QUERY PLAN"]
    [whole] = json.loads(plan) if isinstance(plan, str) else plan
    return dict(whole["Plan"])


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from _nodes(part)


def _sqlite(statement: Statement, table: str) -> Iterator[str]:
    for step in _explained("EXPLAIN QUERY PLAN", statement):
        detail = step["detail"]
        if "TEMP B-TREE" in detail:
            yield f"sorts ({detail})"
        if detail.startswith(f"SCAN {table}") and not _is_capped_look(statement, detail):
            yield f"reads all ({detail})"


def _is_capped_look(statement: Statement, detail: str) -> bool:
    """Whether it reads some entries of an index that holds the rows of one state alone."""
    _, _, index = detail.partition("INDEX ")
    with connection.cursor() as cursor:
        cursor.execute("SELECT sql FROM sqlite_master WHERE name = %s", [index])
        made = cursor.fetchone()
    # The index of a constraint was made by no statement.
    is_partial = made is not None and 'WHERE "status" = ' in (made[0] or "")
    return is_partial and " LIMIT " in statement.sql


def steps(action: Callable[[], object], table: str) -> int:
    """What it takes to read a table: rows on MariaDB, rows or buffers, whichever are more, on
    PostgreSQL, and on SQLite tens of its machine's instructions."""
    measure = {"mysql": _rows_read, "postgresql": _rows_or_buffers, "sqlite": _instructions}
    return measure[connection.vendor](action, table)


def _rows_read(action: Callable[[], object], table: str) -> int:
    before = handler_reads()
    action()
    return handler_reads() - before


def handler_reads() -> int:
    """The rows, and entries of indexes, that this session of MariaDB has gone over so far."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(value) for _, value in cursor.fetchall())


def _rows_or_buffers(action: Callable[[], object], table: str) -> int:
    with captured(table) as statements:
        action()
    parts = [_executed(statement) for statement in statements]
    return sum(max(_buffers(part), _rows_scanned(part)) for part in parts)


def _instructions(action: Callable[[], object], table: str) -> int:
    return instructions(action, TENS)


def instructions(action: Callable[[], object], every: int) -> int:
    """How often SQLite's machine has done so many of them meanwhile."""
    calls = itertools.count()
    connection.ensure_connection()
    connection.connection.set_progress_handler(lambda: next(calls) and None, every)
    try:
        action()
    finally:
        connection.connection.set_progress_handler(None, every)
    return next(calls)
