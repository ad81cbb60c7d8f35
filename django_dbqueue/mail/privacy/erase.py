"""Erasing the message of an email that has ended, by hand or by the reaper when it is old.

That it was sent, when and to whom stays known until its row is deleted: in the archive by the
core, and here where it failed, which leaves it in the queue table.
"""

import time
from typing import Any

from django.db import router

from ...lifecycle.archive import CHUNK, delete_unlocked, on_unlocked
from ...lifecycle.execute import changed_once, placeholders, rows
from ...lifecycle.table import Table
from ...states import Status
from ..conf import mail_conf
from ..models import ArchivedEmail, Email, EmailFields
from ..rows import HAVE_ENDED

WINDOW_ROWS = 5000  # of the queue table looked at in one go: it has no index for this
SWEEP_SECONDS = 3600.0  # from one sweep to the next
IS_OLD = "is_erased = %s AND {}"
HAS_ENDED = f"status IN ({HAVE_ENDED[0]:d}, {HAVE_ENDED[1]:d}) AND "


def erase(email: EmailFields) -> bool:
    """Erase its message for good; False where it still waits, is claimed, or was erased before."""
    manager: Any = type(email)._default_manager
    found = manager.using(router.db_for_write(type(email), instance=email))
    found = found.filter(pk=email.pk, is_erased=False)
    if isinstance(email, Email):
        found = found.filter(status__in=HAVE_ENDED)
    return bool(found.update(message="", subject="", is_erased=True))


class Sweep:
    """Goes through the queue table window by window; once it is at the end it rests for an hour."""

    def __init__(self) -> None:
        # By database alias.
        self._up_to: dict[str, int] = {}
        self._rests_until: dict[str, float] = {}

    def next_keys(self, table: Table, condition: str, params: list[Any]) -> list[Any]:
        """Up to 500 keys of the next window's rows of which the condition holds."""
        alias = table.connection.alias
        if time.monotonic() < self._rests_until.get(alias, 0.0):
            return []
        after = self._up_to.get(alias, 0)
        window = f"SELECT {table.pk} FROM {table.name} WHERE {table.pk} > %s ORDER BY {table.pk}"
        [(end,)] = rows(
            table.connection,
            f"SELECT MAX({table.pk}) FROM ({window} LIMIT {WINDOW_ROWS}) w",
            [after],
        )
        if end is None:
            self._rests_until[alias] = time.monotonic() + SWEEP_SECONDS
            self._up_to[alias] = 0
            return []
        found = rows(
            table.connection,
            f"SELECT {table.pk} FROM {table.by_key} WHERE {table.pk} > %s AND {table.pk} <= %s "
            f"AND {condition} ORDER BY {table.pk} LIMIT {CHUNK}",
            [after, int(end), *params],
        )
        keys = _keys(found)
        self._up_to[alias] = keys[-1] if len(keys) == CHUNK else int(end)
        return keys


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
        erased = _erase_all(table, name, _keys(found), old, seconds)
        old = HAS_ENDED + old
        keys = self._sweep.next_keys(table, old, [False, seconds])
        return erased + _erase_all(table, table.name, keys, old, seconds)


class FailedMailPruner:
    """Deletes up to 500 emails that failed ``MAIL_KEEP_ROWS`` ago whenever it is called; what was
    sent is pruned in the archive."""

    def __init__(self) -> None:
        self._sweep = Sweep()

    def __call__(self, table: Table) -> int:
        """How many emails were deleted."""
        seconds = mail_conf["KEEP_ROWS"]
        if not seconds:
            return 0
        old = f"status = {Status.BURIED:d} AND {table.dialect.is_past('finished_at', '%s')}"
        keys = self._sweep.next_keys(table, old, [seconds])
        return delete_unlocked(table, table.name, keys, f"AND {old}", [seconds])


def _erase_all(table: Table, name: str, keys: list[Any], old: str, seconds: float) -> int:
    def write(chunk: list[Any]) -> int:
        return changed_once(
            table.connection,
            f"UPDATE {table.dialect.by_key(name)} SET message = %s, subject = %s, is_erased = %s "
            f"WHERE {table.pk} IN ({placeholders(chunk)}) AND {old}",
            ["", "", True, *chunk, False, seconds],
        )

    return on_unlocked(table, name, keys, write)


def _keys(found: list[tuple[Any, ...]]) -> list[Any]:
    return sorted(key for (key,) in found)
