"""What is known of one job and of who could run it, by the database's clock."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ..lifecycle.errors import entries
from ..lifecycle.execute import rows
from ..lifecycle.table import Table
from ..lifecycle.versions import MIN_VERSION
from ..models import ArchivedJob
from ..states import CLAIMABLE

# The second part is a worker's alone: a server of tubes, which has a row of a worker, and a loop of
# one's own, which has none, have the first.
OWNER = re.compile(r"([0-9a-f]{32})\.\d+(-\d+)?")
AGES = ("retry_at", "expires_at", "created_at", "dequeued_time", "finished_at")
COLUMNS = (
    *("status", "queue", "priority", "owner", "attempts", "crashes", "losses"),
    *("errors", "dedup_key"),
)
JOBS_AHEAD_MAX = 1000  # that are counted


@dataclass(frozen=True)
class Facts:
    """One row. Times are seconds from now, so negative where they are past."""

    table: Table
    key: Any
    status: Any
    queue: str
    priority: Any
    owner: str | None
    attempts: int
    crashes: int
    losses: int
    errors: list[dict[str, Any]]
    has_dedup_key: bool
    attempts_max: int
    min_version: int  # of the code that it needs; 0 = any
    until: dict[str, float | None]
    hidden: Collection[str] = ()  # columns that hold what is not to be told

    def ago(self, column: str) -> float | None:
        """Seconds since then; None where it is not set."""
        until = self.until[column]
        return None if until is None else max(0.0, -until)

    @property
    def last_exception(self) -> str:
        return str(self.errors[-1].get("exception") or "") if self.errors else ""

    @property
    def last_reason(self) -> str:
        """Why the last error was final, in the job's own words."""
        return str(self.errors[-1].get("reason") or "") if self.errors else ""


def read(
    table: Table,
    key: Any,
    archive: type[ArchivedJob] | None = None,
    hidden: Collection[str] = (),
) -> Facts | None:
    """The facts of a row of the table, or of its archive, whatever a hand wrote into it; None where
    there is none."""
    quote = table.connection.ops.quote_name
    name = table.by_key if archive is None else quote(archive._meta.db_table)
    most = "NULL" if archive is not None else table.max_attempts
    version = "NULL" if archive is not None else table.own_column(MIN_VERSION)
    ages = [table.dialect.seconds_until(column) for column in AGES]
    found = rows(
        table.connection,
        f"SELECT {', '.join((*COLUMNS, most, version, *ages))} FROM {name} WHERE {table.pk} = %s",
        [key],
    )
    if not found:
        return None
    it, until = dict(zip(COLUMNS, found[0], strict=False)), found[0][len(COLUMNS) + 2 :]
    return Facts(
        table=table,
        key=key,
        status=it["status"],
        queue=str(it["queue"]),
        priority=it["priority"],
        owner=None if it["owner"] is None else str(it["owner"]),
        attempts=_count(it["attempts"]),
        crashes=_count(it["crashes"]),
        losses=_count(it["losses"]),
        errors=entries(_decoded_errors(table, it["errors"])),
        has_dedup_key=it["dedup_key"] is not None,
        attempts_max=_count(found[0][len(COLUMNS)]) or table.policy.max_attempts,
        min_version=_count(found[0][len(COLUMNS) + 1]),
        until={
            column: None if seconds is None else float(seconds)
            for column, seconds in zip(AGES, until, strict=True)
        },
        hidden=hidden,
    )


def _decoded_errors(table: Table, stored: Any) -> Any:
    field = table.model._meta.get_field("errors")
    for convert in field.get_db_converters(table.connection):
        stored = convert(stored, field.get_col(table.model._meta.db_table), table.connection)
    return stored


def _count(stored: Any) -> int:
    return stored if isinstance(stored, int) else 0


def jobs_ahead(facts: Facts) -> int:
    """How many ready jobs are claimed before this one; at most 1,001 are counted."""
    table, place = facts.table, facts.table.dialect.placeholder
    ahead = f"priority < {place(facts.priority)}", [facts.priority]
    older = (
        f"priority = {place(facts.priority)} AND {table.pk} < {place(facts.key)}",
        [facts.priority, facts.key],
    )
    total = 0
    for condition, params in (ahead, older):
        [(count,)] = rows(
            table.connection,
            f"SELECT COUNT(*) FROM (SELECT 1 FROM {table.name} WHERE {CLAIMABLE} AND "
            f"queue = {place(facts.queue)} AND {condition} LIMIT {JOBS_AHEAD_MAX + 1}) AS capped",
            [facts.queue, *params],
        )
        total += int(count)
    return total
