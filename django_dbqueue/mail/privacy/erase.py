"""Erasing the message of an email that has ended, by hand or by the reaper when it is old.

That it was sent, when and to whom stays known until its row is deleted: in the archive by the
core, and here where it failed, which leaves it in the queue table.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import router

from ...lifecycle.archive import on_unlocked
from ...lifecycle.execute import changed_once, in_transaction, placeholders, rows
from ...lifecycle.low_instants import CHUNK
from ...lifecycle.sweep import Sweep, keys_of
from ...lifecycle.table import Table, table_of
from ..conf import mail_conf
from ..models import ArchivedEmail, Email, EmailFields
from ..rows import HAVE_ENDED

IS_OLD = "is_erased = %s AND {}"
HAS_ENDED = f"status IN ({HAVE_ENDED[0]:d}, {HAVE_ENDED[1]:d}) AND "


def erase(emails: Sequence[EmailFields]) -> list[Any]:
    """Erase the messages of emails of one table for good: of which it did, since others still wait,
    are claimed, or were erased before."""
    if not emails:
        return []
    database = router.db_for_write(type(emails[0]), instance=emails[0])
    table = table_of(Email, database)
    erased = in_transaction(table.connection, partial(_erase, table, emails))
    return [email for email in emails if email.pk in erased]


def _erase(table: Table, emails: Sequence[EmailFields]) -> set[Any]:
    """They are reached by their keys, and locked in the order of these: a locking read through
    another index would lock the rest of the table, too."""
    name = table.connection.ops.quote_name(type(emails[0])._meta.db_table)
    keys = sorted(email.pk for email in emails)
    old = (HAS_ENDED if isinstance(emails[0], Email) else "") + "is_erased = %s"
    has_lock = table.connection.features.has_select_for_update
    found = rows(
        table.connection,
        f"SELECT {table.pk} FROM {table.dialect.by_key(name)} "
        f"WHERE {table.pk} IN ({placeholders(keys)}) AND {old} ORDER BY {table.pk} "
        f"{table.connection.ops.for_update_sql() if has_lock else ''}",
        [*keys, False],
    )
    held = keys_of(found)
    if held:
        _write(table, name, held, old, [False])
    return set(held)


class Eraser:
    """Erases up to 500 messages of the archive, which has an index for it, and 500 of the queue
    table whenever it is called."""

    def __init__(self) -> None:
        self._sweep = Sweep()

    def __call__(self, table: Table) -> int:
        """How many messages were erased."""
        seconds = mail_conf["KEEP_BODIES"]
        if not seconds:
            return 0
        old = IS_OLD.format(table.dialect.is_past("finished_at", "%s"))
        name = table.connection.ops.quote_name(ArchivedEmail._meta.db_table)
        found = rows(
            table.connection,
            f"SELECT {table.pk} FROM {name} WHERE {old} ORDER BY finished_at LIMIT {CHUNK}",
            [False, seconds],
        )
        erased = _erase_all(table, name, keys_of(found), old, seconds)
        old = HAS_ENDED + old
        keys = self._sweep.next_keys(table, old, [False, seconds])
        return erased + _erase_all(table, table.name, keys, old, seconds)


def _erase_all(table: Table, name: str, keys: list[Any], old: str, seconds: float) -> int:
    def write(chunk: list[Any]) -> int:
        return _write(table, name, chunk, old, [False, seconds])

    return on_unlocked(table, name, keys, write)


def _write(table: Table, name: str, keys: list[Any], old: str, params: list[Any]) -> int:
    return changed_once(
        table.connection,
        f"UPDATE {table.dialect.by_key(name)} SET message = %s, subject = %s, is_erased = %s "
        f"WHERE {table.pk} IN ({placeholders(keys)}) AND {old}",
        ["", "", True, *keys, *params],
    )
