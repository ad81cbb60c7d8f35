"""What is known of concurrency keys: their claims, and who comes first. Index look-ups alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import UUIDField

from ..states import CLAIMABLE, HELD, PROMOTABLE, Status
from .execute import placeholders, rows
from .keys import BLOCK, FAIL, PARKED, SKIP
from .table import Table

KEYS = 100  # of one statement


@dataclass(frozen=True, slots=True)
class Heads:
    """Of one key the lowest id in each state; None where there is none."""

    ready: Any
    waiting: Any  # for its time, or for its key
    parked: Any  # for its key alone
    buried: Any

    def first(self, order: str) -> Any:
        """The id whose turn it is; None where a job blocks that is buried."""
        waiting = self.parked if order == SKIP else self.waiting
        ids = [one for one in (self.ready, waiting) if one is not None]
        first = min(ids, default=None)
        is_blocked = order == BLOCK and self.buried is not None
        return None if is_blocked and first is not None and self.buried < first else first

    def dooms(self, pk: Any, order: str) -> bool:
        """Whether a claim that meets this one buries it, as one before it is buried."""
        return order == FAIL and self.buried is not None and bool(self.buried < pk)


def count_claimed(
    table: Table, names: Sequence[str], states: Sequence[str] = (HELD,)
) -> dict[str, int]:
    """By key, how many of its jobs are in one of these states."""
    counts: dict[str, int] = {}
    for chunk in _chunks(names):
        for state in states:
            found = rows(
                table.connection,
                f"SELECT concurrency_key, COUNT(*) FROM {table.name} WHERE {state} "
                f"AND concurrency_key IN ({placeholders(chunk)}) GROUP BY concurrency_key",
                chunk,
            )
            for name, count in found:
                counts[name] = counts.get(name, 0) + int(count)
    return counts


def keys_of(table: Table, keys: Sequence[Any]) -> list[str]:
    """The concurrency keys of rows."""
    found: set[str] = set()
    for start in range(0, len(keys), KEYS):
        among, these = table.dialect.among(table.pk, keys[start : start + KEYS])
        sql = f"SELECT concurrency_key FROM {table.by_key} WHERE {among}"
        found |= {name for (name,) in rows(table.connection, sql, these) if name is not None}
    return sorted(found)


def with_parked(table: Table, names: Sequence[str]) -> list[str]:
    """Those of the keys of which a job is parked."""
    one = (
        f"SELECT concurrency_key FROM {table.name} WHERE {PARKED} AND concurrency_key = %s LIMIT 1"
    )
    found: list[str] = []
    for chunk in _chunks(names):
        parts = (f"SELECT * FROM ({one}) AS key{number}" for number in range(len(chunk)))
        found += [name for (name,) in rows(table.connection, " UNION ALL ".join(parts), chunk)]
    return found


def parked_keys(table: Table, after: str, most: int) -> list[str]:
    """Up to so many keys with parked jobs, from a name on, by hopping."""
    keys = f"SELECT concurrency_key FROM {table.name} WHERE {PARKED} AND concurrency_key"
    is_beyond = ">" if after else ">="  # SQL by hand may have written ''
    found: list[str] = []
    while len(found) < most:
        sql = f"{keys} {is_beyond} %s ORDER BY concurrency_key LIMIT 1"
        next_one = rows(table.connection, sql, [after])
        if not next_one:
            break
        after, is_beyond = next_one[0][0], ">"
        found.append(after)
    return found


def find_heads(table: Table, names: Sequence[str]) -> dict[str, Heads]:
    states = CLAIMABLE, PROMOTABLE, PARKED, f"status = {Status.BURIED:d}"
    lowest = ", ".join(_lowest(table, state) for state in states)
    heads: dict[str, Heads] = {}
    for chunk in _chunks(names):
        given = " UNION ALL ".join(
            ["SELECT %s AS concurrency_key", *["SELECT %s"] * (len(chunk) - 1)]
        )
        sql = f"SELECT k.concurrency_key, {lowest} FROM ({given}) AS k"
        heads |= {name: Heads(*ids) for name, *ids in rows(table.connection, sql, chunk)}
    return heads


def _lowest(table: Table, state: str) -> str:
    """SQL for the lowest id of a key in a state: its jobs lie in the order of their priorities, of
    which there is mostly one."""
    mine = f"FROM {table.name} AS j WHERE j.{state} AND j.concurrency_key = k.concurrency_key"
    mine = mine.replace("AND retry_at", "AND j.retry_at")
    least = f"(SELECT j.priority {mine} ORDER BY j.priority LIMIT 1)"
    most = f"(SELECT j.priority {mine} ORDER BY j.priority DESC LIMIT 1)"
    first = f"(SELECT j.{table.pk} {mine} ORDER BY j.priority, j.{table.pk} LIMIT 1)"
    any_of_them = f"(SELECT MIN(j.{table.pk}) {mine})"
    is_uuid = isinstance(table.model._meta.pk, UUIDField)
    if is_uuid and table.connection.features.has_native_uuid_field:
        # PostgreSQL knows no least UUID. This leads through the rows of the table.
        any_of_them = f"(SELECT j.{table.pk} {mine} ORDER BY j.{table.pk} LIMIT 1)"
    # Of most keys no job is in the state.
    is_usual = f"{least} IS NULL OR {least} = {most}"
    return f"CASE WHEN {is_usual} THEN {first} ELSE {any_of_them} END"


def _chunks(names: Iterable[str]) -> Iterator[list[str]]:
    every = list(names)
    for start in range(0, len(every), KEYS):
        yield every[start : start + KEYS]
