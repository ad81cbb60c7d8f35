"""What becomes of jobs, written down by triggers of the database itself: real counts of any moment,
of which no process of ours knows."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from django_dbqueue.models import Job
from django_dbqueue.states import Status

SECOND = 1_000_000  # microseconds, in which all moments are here
Place = tuple[str, str, int]  # queue table, queue, state
NOW = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
    "mysql": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
    "postgresql": "CAST(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) * 1000000 AS BIGINT)",
}
KEY = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "mysql": "BIGINT AUTO_INCREMENT PRIMARY KEY",
    "postgresql": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}
COLUMNS = "moved_at, job_table, job, was_in, was, is_in, now_is, owner, ended, by_crash, failure"
HELD, DONE, BURIED = int(Status.CLAIMED), int(Status.DONE), int(Status.BURIED)
# How a claim ended, as the row says: an attempt that failed leaves an error.
ENDED = (
    f"CASE WHEN OLD.status <> {HELD} OR NEW.status = {HELD} THEN '' "
    f"WHEN NEW.status = {DONE} AND NEW.dequeued_time IS NULL THEN 'expired' "
    f"WHEN NEW.status = {DONE} THEN 'completed' "
    "WHEN {old} = {new} THEN '' "
    f"WHEN NEW.status = {BURIED} THEN 'buried' ELSE 'failed' END"
)
CRASHED = "CASE WHEN NEW.crashes > OLD.crashes THEN 1 ELSE 0 END"
VALUES = {
    "insert": "NEW.id, NULL, NULL, NEW.queue, NEW.status, NULL, '', 0, NULL",
    "update": "NEW.id, OLD.queue, OLD.status, NEW.queue, NEW.status, "
    f"COALESCE(OLD.owner, NEW.owner), {ENDED}, {CRASHED}, NEW.failure",
    "delete": "OLD.id, OLD.queue, OLD.status, NULL, NULL, OLD.owner, '', 0, NULL",
}
HAS_MOVED = "OLD.status <> NEW.status OR OLD.queue <> NEW.queue"


def run(sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql.replace("%", "%%") if not params else sql, params)
        return list(cursor.fetchall()) if cursor.description else []


def now() -> int:
    """By the database's clock."""
    return int(run(f"SELECT {NOW[connection.vendor]}")[0][0])


@contextmanager
def audited(*models: type[Job]) -> Iterator[None]:
    """While this lasts, every change of state or queue of these tables is a row of the audit."""
    tables = [model._meta.db_table for model in models]
    run(
        f"CREATE TABLE figures_audit (id {KEY[connection.vendor]}, moved_at BIGINT NOT NULL, "
        "job_table VARCHAR(60) NOT NULL, job BIGINT NOT NULL, was_in VARCHAR(100), was INT, "
        "is_in VARCHAR(100), now_is INT, owner VARCHAR(64), ended VARCHAR(10) NOT NULL, "
        "by_crash INT NOT NULL, failure VARCHAR(64))"
    )
    run("CREATE INDEX figures_audit_moved_at ON figures_audit (moved_at)")
    run("CREATE INDEX figures_audit_job ON figures_audit (job)")
    try:
        for table in tables:
            for event, values in VALUES.items():
                _create_trigger(table, event, values)
        yield
    finally:
        for table in tables:
            for event in VALUES:
                on = f" ON {table}" if connection.vendor == "postgresql" else ""
                run(f"DROP TRIGGER IF EXISTS figures_{table}_{event}{on}")
        run("DROP TABLE figures_audit")


def _create_trigger(table: str, event: str, values: str) -> None:
    is_text = connection.vendor == "postgresql"
    errors = "CAST({}.errors AS TEXT)" if is_text else "{}.errors"
    values = values.replace("{old}", errors.format("OLD")).replace("{new}", errors.format("NEW"))
    insert = (
        f"INSERT INTO figures_audit ({COLUMNS}) SELECT {NOW[connection.vendor]}, '{table}', "
        f"{values}{f' WHERE {HAS_MOVED}' if event == 'update' else ''};"
    )
    if connection.vendor == "mysql":
        # A SELECT would lock the counter of the keys until the statement ends.
        row = f"{NOW['mysql']}, '{table}', {values}"
        insert = f"INSERT INTO figures_audit ({COLUMNS}) VALUES ({row});"
        insert = f"IF {HAS_MOVED} THEN {insert} END IF;" if event == "update" else insert
    name = f"figures_{table}_{event}"
    head = f"CREATE TRIGGER {name} AFTER {event.upper()} ON {table} FOR EACH ROW"
    if not is_text:
        run(f"{head} BEGIN {insert} END")
        return
    run(
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN {insert} RETURN NULL; END $$"
    )
    run(f"{head} EXECUTE FUNCTION {name}()")


@contextmanager
def snapshot() -> Iterator[None]:
    """All that is read within is as of one moment, while others go on."""
    from django.db import transaction

    connection.ensure_connection()
    before = getattr(connection, "transaction_mode", None)
    if connection.vendor == "sqlite":
        connection.transaction_mode = "DEFERRED"  # type: ignore[attr-defined]
    if connection.vendor == "mysql":
        run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    try:
        with transaction.atomic():
            if connection.vendor == "postgresql":
                run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield
    finally:
        if connection.vendor == "sqlite":
            connection.transaction_mode = before  # type: ignore[attr-defined]


def counts(model: type[Job]) -> dict[Place, int]:
    name = model._meta.db_table
    found = run(f"SELECT queue, status, COUNT(*) FROM {name} GROUP BY queue, status")
    return {(name, str(queue), int(status)): int(jobs) for queue, status, jobs in found}


@dataclass(frozen=True)
class End:
    """Of a claim: how, and whose it was."""

    at: int
    table: str
    queue: str
    how: str
    failure: str
    worker: str
    by_crash: bool


@dataclass
class Ends:
    """When claims ended, by queue table, queue, how, and kind of failure; all in their order."""

    at: dict[tuple[str, str, str, str], list[int]] = field(default_factory=dict)
    all: list[End] = field(default_factory=list)

    @classmethod
    def read(cls) -> "Ends":
        ends = cls()
        sql = (
            "SELECT moved_at, job_table, was_in, ended, COALESCE(failure, ''), owner, by_crash "
            "FROM figures_audit WHERE ended <> '' ORDER BY moved_at"
        )
        for at, table, queue, how, failure, owner, by_crash in run(sql):
            kind = "" if how == "completed" else str(failure)
            worker = owner.partition(".")[0]
            ends.add(End(int(at), table, queue, how, kind, worker, bool(by_crash)))
        return ends

    def add(self, end: End) -> None:
        self.at.setdefault((end.table, end.queue, end.how, end.failure), []).append(end.at)
        self.all.append(end)

    def count(self, since: int, until: int, **wanted: Any) -> int:
        """``table``, ``queue``, ``how`` (one or some) and ``failure`` narrow it down."""
        return sum(
            bisect_right(moments, until) - bisect_left(moments, since)
            for key, moments in self.at.items()
            if _fits(key, wanted)
        )


def _fits(key: tuple[str, str, str, str], wanted: dict[str, Any]) -> bool:
    table, queue, how, failure = key
    return (
        wanted.get("table", table) == table
        and wanted.get("queue", queue) == queue
        and how in wanted.get("how", (how,))
        and wanted.get("failure", failure) == failure
    )


def moves_since(since: int) -> list[tuple[int, Place | None, Place | None]]:
    """When which job left which place for which other one."""
    sql = (
        "SELECT moved_at, job_table, was_in, was, is_in, now_is FROM figures_audit "
        "WHERE moved_at >= %s ORDER BY moved_at"
    )
    return [
        (
            int(at),
            None if was is None else (table, was_in, int(was)),
            None if now_is is None else (table, is_in, int(now_is)),
        )
        for at, table, was_in, was, is_in, now_is in run(sql, [since])
    ]


def bounds_at(
    counted: dict[Place, int],
    moves: Sequence[tuple[int, Place | None, Place | None]],
    since: int,
    until: int,
) -> dict[Place, tuple[int, int]]:
    """How many there may have been for one who counted between two moments; ``counted`` are those
    of now, and ``moves`` all since the first one at least."""
    at_first, left, came = Counter(counted), Counter[Place](), Counter[Place]()
    for at, was, is_now in moves:
        if at < since:
            continue
        for place, way in ((was, 1), (is_now, -1)):
            if place is not None:
                at_first[place] += way
        if at <= until:
            left.update([was] if was else [])
            came.update([is_now] if is_now else [])
    places = at_first.keys() | came.keys()
    return {one: (at_first[one] - left[one], at_first[one] + came[one]) for one in places}
