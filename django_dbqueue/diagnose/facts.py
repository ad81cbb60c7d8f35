"""What is known of one job and of who could run it, by the database's clock."""

from dataclasses import dataclass
from typing import Any

from ..lifecycle.errors import entries
from ..lifecycle.execute import rows
from ..lifecycle.table import Table
from ..models import ArchivedJob
from ..monitor.worker_list import ListedWorker, list_workers
from ..states import CLAIMABLE

AGES = ("retry_at", "expires_at", "created_at", "dequeued_time", "finished_at")
COLUMNS = (
    *("status", "queue", "priority", "owner", "attempts", "crashes", "losses"),
    *("errors", "dedup_key"),
)
MOST_BEFORE = 1000


@dataclass(frozen=True)
class Facts:
    """One row. Times are seconds from now, hence negative where they are past."""

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
    until: dict[str, float | None]

    def ago(self, column: str) -> float | None:
        """Seconds since then; None where it is not set."""
        until = self.until[column]
        return None if until is None else max(0.0, -until)

    @property
    def last_exception(self) -> str:
        return str(self.errors[-1].get("exception") or "") if self.errors else ""


def read(table: Table, key: Any, archive: type[ArchivedJob] | None = None) -> Facts | None:
    """The facts of a row of the table, or of its archive, whatever a hand wrote into it; None where
    there is none."""
    quote = table.connection.ops.quote_name
    name = table.by_key if archive is None else quote(archive._meta.db_table)
    ages = [table.dialect.seconds_until(column) for column in AGES]
    found = rows(
        table.connection,
        f"SELECT {', '.join((*COLUMNS, *ages))} FROM {name} WHERE {table.pk} = %s",
        [key],
    )
    return _facts(table, key, found[0]) if found else None


def _facts(table: Table, key: Any, row: tuple[Any, ...]) -> Facts:
    it, seconds = dict(zip(COLUMNS, row, strict=False)), row[len(COLUMNS) :]
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
        errors=entries(_loaded(table, it["errors"])),
        has_dedup_key=it["dedup_key"] is not None,
        until=dict(zip(AGES, map(_seconds, seconds), strict=True)),
    )


def _loaded(table: Table, stored: Any) -> Any:
    field = table.model._meta.get_field("errors")
    for convert in field.get_db_converters(table.connection):
        stored = convert(stored, field.get_col(table.model._meta.db_table), table.connection)
    return stored


def _count(stored: Any) -> int:
    return stored if isinstance(stored, int) else 0


def _seconds(stored: Any) -> float | None:
    return None if stored is None else float(stored)


def before(facts: Facts) -> int:
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
            f"queue = {place(facts.queue)} AND {condition} LIMIT {MOST_BEFORE + 1}) AS capped",
            [facts.queue, *params],
        )
        total += int(count)
    return total


def serving(facts: Facts, members: list[ListedWorker]) -> list[ListedWorker]:
    """The workers whose lanes include the job's queue, dead ones too."""
    names = {facts.table.label, f"{facts.table.label}:{facts.queue}"}
    return [member for member in members if names & set(member.serves)]


def members_of(table: Table) -> list[ListedWorker]:
    return list_workers(table.connection.alias)
