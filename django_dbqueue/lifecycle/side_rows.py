"""Rows of another table by which jobs are found: written with their jobs, and deleted with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from django.apps import apps

from .execute import in_transaction, placeholders, rows
from .table import Table

T = TypeVar("T")
Keyed = Sequence[tuple[Any, Any]]


class SideRows(Protocol):
    """What a model names as its ``side_rows``. Each is called in the transaction that writes, or
    deletes, the jobs; a job that moves to the archive keeps its key, and so its rows."""

    def write(self, table: Table, jobs: Keyed) -> None:
        """Those of new jobs, each with its key."""

    def delete(self, table: Table, keys: Sequence[Any]) -> None:
        """Those of jobs that are neither in the queue table nor in its archive any more."""

    def renew(self, table: Table, job: Any) -> None:
        """Those of a job of which other columns were changed, as it is now."""


def written_with(table: Table, write: Callable[[], T], keyed: Callable[[T], Keyed]) -> T:
    """What ``write`` gives back, which inserts jobs; ``keyed`` says with which keys."""
    side: SideRows | None = table.model.side_rows
    if side is None:
        return write()

    def both() -> T:
        written = write()
        side.write(table, keyed(written))
        return written

    return in_transaction(table.connection, both, savepoint=False)


def keyed(jobs: Sequence[Any]) -> Keyed:
    """Jobs with their keys. Of those that Django was asked to leave out, or to write over others,
    it does not say which they are."""
    return [(job.pk, job) for job in jobs if job.pk is not None]


def renewed_with(table: Table, key: Any, change: Callable[[], int]) -> int:
    """The count that ``change`` gives back, which writes other columns of the job with this key."""
    side: SideRows | None = table.model.side_rows
    if side is None:
        return change()

    def both() -> int:
        count = change()
        if count:
            # Locked already; a plain read may not see one that is younger than its snapshot.
            rows_now = table.model._base_manager.using(table.connection.alias).select_for_update()
            side.renew(table, rows_now.get(pk=key))
        return count

    return in_transaction(table.connection, both, savepoint=False)


def deleted_with(table: Table, keys: Sequence[Any], delete: Callable[[], int]) -> int:
    """The count that ``delete`` gives back, which deletes jobs among these keys."""
    side: SideRows | None = table.model.side_rows
    if side is None:
        return delete()

    def both() -> int:
        count = delete()
        if count:
            side.delete(table, gone(table, keys))
        return count

    return in_transaction(table.connection, both, savepoint=False)


def gone(table: Table, keys: Sequence[Any]) -> list[Any]:
    """Those of the keys that are in no table any more. One that another transaction moves to the
    archive meanwhile is in the one or the other."""
    quote = table.connection.ops.quote_name
    archive = table.policy.archive
    names = [table.name]
    names += [quote(apps.get_model(archive)._meta.db_table)] if archive else []
    left = list(keys)
    for name in names:
        if left:
            sql = f"SELECT {table.pk} FROM {name} WHERE {table.pk} IN ({placeholders(left)})"
            # As they are read they may be of another type: a UUID is text for MariaDB's drivers.
            here = {table.db_key(key) for (key,) in rows(table.connection, sql, left)}
            left = [key for key in left if table.db_key(key) not in here]
    return left
