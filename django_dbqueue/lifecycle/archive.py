"""Finished jobs: moved to the archive table, deleted when they are old enough."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.apps import apps

from ..states import ARCHIVABLE
from .execute import (
    changed,
    changed_once,
    in_transaction,
    placeholders,
    rows,
    try_once_in_transaction,
    unlocked_keys,
)
from .low_instants import LowInstant, LowInstants
from .side_rows import deleted_with
from .table import Table


def archive(table: Table, low: LowInstant | None = None) -> int:
    """Move up to 500 jobs that finished ``archive_after`` seconds ago; how many.

    Jobs that finished before the policy named an archive stay where they are. ``low`` is what is
    remembered from call to call; without it all of the table is looked at.
    """
    if table.policy.archive is None:
        return 0
    move = partial(take_out, table, condition=ARCHIVABLE, params=[])
    return on_unlocked(table, table.name, _finished(table, low), move)


def on_unlocked(
    table: Table, name: str, keys: Sequence[Any], work: Callable[[list[Any]], int]
) -> int:
    """Do something with those rows that nobody has locked, in one short transaction; its count.

    ``name`` is the quoted name of the queue table or of its archive. 0 where a lock lasts.
    """

    def work_on_them() -> int:
        free = unlocked_keys(table, keys, name)
        return work(free) if free else 0

    if not keys:
        return 0
    return try_once_in_transaction(table.connection, work_on_them) or 0


def prune(table: Table, lows: LowInstants | None = None) -> int:
    """Delete up to 500 finished jobs that are older than ``prune_after``, where the policy says so.

    Where there is an archive, only archived jobs are pruned.
    """
    if table.policy.prune_after is None:
        return 0
    lows = lows or LowInstants()
    if table.policy.archive is None:
        finished = _finished(table, lows.finished)
        return delete_unlocked(table, table.name, finished, f"AND {ARCHIVABLE}")
    return prune_archived(table, table.policy.prune_after, lows.archived)


def prune_archived(table: Table, seconds: float, low: LowInstant | None = None) -> int:
    """Delete up to 500 archived jobs that ended so long ago; 0 where there is no archive."""
    if table.policy.archive is None:
        return 0
    archived = apps.get_model(table.policy.archive)._meta.db_table
    name = table.connection.ops.quote_name(archived)
    old = (low or LowInstant()).first(table, name, "finished_at", seconds)
    return delete_unlocked(table, name, old)


def take_out(table: Table, keys: Sequence[Any], condition: str, params: Sequence[Any]) -> int:
    """Move jobs of which ``condition`` holds to the archive, or delete them where there is none."""
    if table.policy.archive is None:
        return delete(table, keys, condition, params)

    connection = table.connection
    # SQLite's transaction holds the whole database.
    has_locks = connection.features.has_select_for_update
    locking = connection.ops.for_update_sql() if has_locks else ""

    def move() -> int:
        # Held until the commit: else a job may be claimed, or moved by another, after the copy.
        held = rows(
            connection,
            f"SELECT {table.pk} FROM {table.by_key} WHERE {table.pk} IN ({placeholders(keys)}) "
            f"AND {condition} ORDER BY {table.pk} {locking}",
            [*keys, *params],
        )
        if not held:
            return 0
        mine = [key for (key,) in held]
        copy_to_archive(table, mine)
        return remove(table, mine, condition, params)

    return in_transaction(connection, move)


def delete(table: Table, keys: Sequence[Any], condition: str, params: Sequence[Any]) -> int:
    """Delete jobs of which ``condition`` holds, without a copy."""
    return deleted_with(table, keys, partial(remove, table, keys, condition, params))


def remove(table: Table, keys: Sequence[Any], condition: str, params: Sequence[Any]) -> int:
    """The same, of jobs that the archive has by now."""
    return changed(
        table.connection,
        f"{table.dialect.delete_by_key(table.name)} "
        f"WHERE {table.pk} IN ({placeholders(keys)}) AND {condition}",
        [*keys, *params],
    )


def copy_to_archive(table: Table, keys: Sequence[Any]) -> int:
    """Copy rows to the archive table with INSERT .. SELECT.

    What never finished ends now: else nobody would ever find it old enough to be deleted.
    """
    assert table.policy.archive is not None
    archived = apps.get_model(table.policy.archive)
    quote, read = table.connection.ops.quote_name, table.dialect.read_column
    names = [f.column for f in archived._meta.concrete_fields if not f.generated]
    columns = ", ".join(map(quote, names))
    ended = {"finished_at": f"COALESCE(finished_at, {table.dialect.now})"}
    values = ", ".join(ended.get(name, read(name)) for name in names)
    return changed(
        table.connection,
        f"INSERT INTO {quote(archived._meta.db_table)} ({columns}) "
        f"SELECT {values} FROM {table.by_key} WHERE {table.pk} IN ({placeholders(keys)})",
        keys,
    )


def _finished(table: Table, low: LowInstant | None) -> list[Any]:
    """Keys of up to 500 finished jobs whose time in this table is over."""
    return sorted((low or LowInstant()).first(table, table.name, "retry_at", 0, ARCHIVABLE))


def delete_unlocked(
    table: Table, name: str, keys: list[Any], condition: str = "", params: Sequence[Any] = ()
) -> int:
    """Delete those rows of the queue table, or of its archive, that nobody has locked."""

    def delete_free(free: list[Any]) -> int:
        by_key = f"{table.pk} IN ({placeholders(free)})"
        sql = f"{table.dialect.delete_by_key(name)} WHERE {by_key} {condition}"
        delete = partial(changed_once, table.connection, sql, [*free, *params])
        return deleted_with(table, free, delete)

    return on_unlocked(table, name, keys, delete_free)
