"""What the server reads of tube jobs. Each statement goes by an index, and reads no more rows than
it answers with, but for the counts."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..dialects.types import Statement
from ..lifecycle.execute import rows
from ..lifecycle.policy import MAX_SECONDS
from ..lifecycle.table import Table
from ..models import Queue
from ..models.queue import ALL
from ..states import CLAIMABLE, Status

ID_MAX = 2**63 - 1  # of a bigint; beanstalkd's go twice as far
URGENT = 1024  # a ready job below this priority counts as urgent
TUBES_AT_ONCE = 100  # looked at in one statement
# Seconds that a claim outlasts its ttr, which the server ends by itself: others end it only where
# the server does not.
ALLOWANCE = 5
RESOLUTION = 0.001  # of SQLite's clock: within a tick no time would seem to have gone by
LIVING = (Status.READY, Status.CLAIMED, Status.DELAYED, Status.BURIED)
ORDERS = {Status.READY: "priority", Status.DELAYED: "retry_at", Status.BURIED: "burial"}


class Body(NamedTuple):
    """A job as a client gets it."""

    id: int
    body: bytes


class Taken(NamedTuple):
    """A job that was claimed."""

    id: int
    body: bytes
    tube: str
    ttr: int
    priority: int
    has_expired: bool


class JobStats(NamedTuple):
    """What ``stats-job`` tells; times in seconds."""

    id: int
    tube: str
    status: Status
    priority: int
    age: float
    delay: int
    ttr: int
    time_left: float
    reserves: int
    timeouts: int
    releases: int
    buries: int
    kicks: int


def ready(table: Table, limits: Mapping[str, int]) -> dict[str, list[tuple[int, int]]]:
    """By tube, up to so many of its ready jobs: priority and key, those that come first last."""
    found: dict[str, list[tuple[int, int]]] = {tube: [] for tube in limits}
    for sql, params in _looks(table, limits):
        for tube, priority, key in rows(table.connection, sql, params):
            found[tube].append((_number(priority), key))
    for jobs in found.values():
        jobs.sort(reverse=True)
    return found


def _looks(table: Table, limits: Mapping[str, int]) -> list[Statement]:
    """One statement for many tubes is planned once: a union of as many is planned tube by tube,
    which takes ten times as long."""
    tubes = sorted(limits)
    if table.dialect.has_lateral:
        return [_first_jobs(table, {tube: limits[tube] for tube in one}) for one in _parts(tubes)]
    single = [tube for tube in tubes if limits[tube] == 1]
    several = [tube for tube in tubes if limits[tube] > 1]
    looks = [_first_job(table, one) for one in _parts(single)]
    return looks + [_union(table, {tube: limits[tube] for tube in one}) for one in _parts(several)]


def _parts(tubes: Sequence[str]) -> list[Sequence[str]]:
    return [tubes[at : at + TUBES_AT_ONCE] for at in range(0, len(tubes), TUBES_AT_ONCE)]


def _first_jobs(table: Table, limits: Mapping[str, int]) -> Statement:
    """Of each tube so many jobs."""
    names = ", ".join(["(%s, %s)"] * len(limits))
    first = (
        f"SELECT queue, priority, {table.pk} FROM {table.name} WHERE {CLAIMABLE} "
        f"AND queue = tube.name ORDER BY priority, {table.pk} LIMIT tube.most"
    )
    sql = f"SELECT job.* FROM (VALUES {names}) AS tube (name, most), LATERAL ({first}) AS job"
    return sql, [value for pair in limits.items() for value in pair]


def _first_job(table: Table, tubes: Sequence[str]) -> Statement:
    """Of each tube one job."""
    names = " UNION ALL ".join(["SELECT %s AS name", *["SELECT %s"] * (len(tubes) - 1)])
    first = (
        f"SELECT {table.pk} FROM {table.name} WHERE {CLAIMABLE} AND queue = tube.name "
        f"ORDER BY priority, {table.pk} LIMIT 1"
    )
    sql = (
        f"SELECT job.queue, job.priority, job.{table.pk} FROM ({names}) AS tube "
        f"JOIN {table.name} AS job ON job.{table.pk} = ({first})"
    )
    return sql, tubes


def _union(table: Table, limits: Mapping[str, int]) -> Statement:
    sql = " UNION ALL ".join(
        f"SELECT * FROM (SELECT queue, priority, {table.pk} FROM {table.name} "
        f"WHERE {CLAIMABLE} AND queue = %s ORDER BY priority, {table.pk} "
        f"LIMIT {limit:d}) AS part{number}"
        for number, limit in enumerate(limits.values())
    )
    return sql, list(limits)


def taken(table: Table, keys: Sequence[int]) -> list[Taken]:
    """The jobs of a claim that was just made, the most urgent and oldest first."""
    columns = f"{table.pk}, body, queue, {_ttr(table)}, priority"
    expired = f"(expires_at IS NOT NULL AND expires_at <= {table.dialect.now})"
    among, these = table.dialect.among(table.pk, keys)
    sql = f"SELECT {columns}, {expired} FROM {table.by_key} WHERE {among}"
    found = [
        Taken(key, _bytes(body), _text(tube), int(_number(ttr)), _number(priority), bool(expired))
        for key, body, tube, ttr, priority, expired in rows(table.connection, sql, these)
    ]
    return sorted(found, key=lambda one: (one.priority, one.id))


def _ttr(table: Table) -> str:
    """The seconds that a claim of a row lasts: an operator may have given it another time than its
    producer did. Of more than a row may say, what was given. MariaDB answers with a decimal."""
    return (
        f"CASE WHEN ttr > {MAX_SECONDS} AND time_to_run = {MAX_SECONDS} THEN ttr "
        f"WHEN time_to_run BETWEEN 1 AND {MAX_SECONDS} THEN time_to_run "
        f"ELSE {table.policy.time_to_run:d} END"
    )


def first(table: Table, tube: str, status: Status) -> Body | None:
    """The job of a tube that is next: to be reserved, to become ready, or to be kicked."""
    condition = f"status = {status:d} AND queue = %s ORDER BY {ORDERS[status]}, {table.pk} LIMIT 1"
    return _body(table, condition, [tube])


def body_of(table: Table, key: int) -> Body | None:
    return _body(table, f"{table.pk} = %s AND status <> {Status.DONE:d}", [key])


def _body(table: Table, condition: str, params: Sequence[Any]) -> Body | None:
    sql = f"SELECT {table.pk}, body FROM {table.name} WHERE {condition}"
    for key, body in rows(table.connection, sql, params):
        return Body(key, _bytes(body))
    return None


def _bytes(body: Any) -> bytes:
    """On SQLite a column may hold anything: a hand writes text."""
    return str(body).encode() if isinstance(body, (str, int, float)) else bytes(body)


def _text(name: Any) -> str:
    return name.decode(errors="backslashreplace") if isinstance(name, bytes) else str(name)


def _number(value: Any) -> Any:
    """What is none comes last, as SQLite has it."""
    return ID_MAX if isinstance(value, (str, bytes)) else min(value, ID_MAX)


def keys_of(table: Table, tube: str, status: Status, limit: int) -> list[int]:
    """The keys of the jobs that come first in this state."""
    sql = (
        f"SELECT {table.pk} FROM {table.name} WHERE status = {status:d} AND queue = %s "
        f"ORDER BY {ORDERS[status]}, {table.pk} LIMIT %s"
    )
    return [key for (key,) in rows(table.connection, sql, [tube, limit])]


def stats_of(table: Table, key: int) -> JobStats | None:
    until, dialect = table.dialect.seconds_until, table.dialect
    age = f"-({until(dialect.readable_column('created_at'))})"
    left = until(dialect.readable_column("retry_at"))
    sql = (
        f"SELECT {table.pk}, queue, status, priority, {age}, delay, {_ttr(table)}, "
        f"COALESCE({left}, 0), reserves, timeouts, releases, buries, kicks FROM {table.name} "
        f"WHERE {table.pk} = %s AND status <> {Status.DONE:d}"
    )
    for number, tube, status, priority, old, delay, lasts, left, *counted in rows(
        table.connection, sql, [key]
    ):
        ttr = int(_number(lasts))
        # A row's claim ends after some years; its client is told the ttr that it gave.
        beyond = ALLOWANCE - max(0, ttr - MAX_SECONDS) if status == Status.CLAIMED else 0
        time_left = max(0.0, float(left) - beyond - RESOLUTION)
        given = number, _text(tube), Status(status), priority, float(old), delay, ttr, time_left
        return JobStats(*given, *counted)
    return None


def tubes_of(table: Table, keys: Sequence[int]) -> dict[int, str]:
    """By key, of the jobs that there are."""
    if not keys:
        return {}
    among, these = table.dialect.among(table.pk, keys)
    found = rows(
        table.connection, f"SELECT {table.pk}, queue FROM {table.by_key} WHERE {among}", these
    )
    return dict(found)


def has_jobs(table: Table, tube: str) -> bool:
    return bool(_first_tubes(table, "=", dict.fromkeys(LIVING, tube)))


def tubes_with_jobs(table: Table) -> set[str]:
    """A look-up for each tube and state: in one statement a state, or one a tube and one more."""
    found: set[str] = set()
    if table.dialect.seeks_in_recursion:
        for status in LIVING:
            least = f"SELECT MIN(queue) FROM {table.name} WHERE status = {status:d}"
            sql = (
                f"WITH RECURSIVE tubes(tube) AS (SELECT ({least}) UNION ALL SELECT "
                f"({least} AND queue > tubes.tube) FROM tubes WHERE tubes.tube IS NOT NULL) "
                "SELECT tube FROM tubes WHERE tube IS NOT NULL"
            )
            found.update(_text(tube) for (tube,) in rows(table.connection, sql, []))
        return found
    last = dict.fromkeys(LIVING, "")
    while last:
        last = _first_tubes(table, ">", last)
        found.update(last.values())
    return found


def _first_tubes(table: Table, compared: str, names: Mapping[Status, str]) -> dict[Status, str]:
    """By state, the first tube with a job whose name compares so."""
    sql = " UNION ALL ".join(
        f"SELECT * FROM (SELECT {status:d} AS status, queue FROM {table.name} WHERE "
        f"status = {status:d} AND queue {compared} %s ORDER BY queue LIMIT 1) AS part{status:d}"
        for status in names
    )
    found = rows(table.connection, sql, list(names.values()))
    return {Status(status): str(tube) for status, tube in found}


def counts(table: Table, tube: str | None = None) -> dict[str, int]:
    """How many jobs there are in each state, of one tube or of all; ``urgent`` are ready too."""
    of_tube, params = ("", []) if tube is None else (" AND queue = %s", [tube])
    names = ("ready", "reserved", "delayed", "buried")
    conditions = {name: f"status = {s:d}" for name, s in zip(names, LIVING, strict=True)}
    conditions["urgent"] = f"{CLAIMABLE} AND priority < {URGENT}"
    parts = [
        f"(SELECT COUNT(*) FROM {table.name} WHERE {condition}{of_tube})"
        for condition in conditions.values()
    ]
    sql = f"SELECT {', '.join(parts)}"
    [numbers] = rows(table.connection, sql, params * len(conditions))
    return dict(zip(conditions, numbers, strict=True))


def pauses(table: Table) -> list[tuple[str, float]]:
    """The tubes that are paused, or ``ALL``, and the seconds that are left."""
    dialect, quote = table.dialect, table.connection.ops.quote_name
    left = dialect.seconds_until(dialect.readable_column("paused_until"))
    sql = (
        f"SELECT name, {left} FROM {quote(Queue._meta.db_table)} "
        f"WHERE job_table IN (%s, %s) AND paused_until > {dialect.now} ORDER BY paused_until"
    )
    found = rows(table.connection, sql, [table.job_table, ALL])
    return [(str(name), float(seconds)) for name, seconds in found]
