"""Old rows that no index finds: the queue table is gone through, window by window."""

import time
from collections.abc import Callable
from typing import Any

from ..states import Status
from .archive import delete_unlocked
from .execute import rows
from .low_instants import CHUNK
from .table import Table

WINDOW_ROWS = 5000  # looked at in one go
SWEEP_SECONDS = 3600.0  # from one sweep to the next


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
        keys = keys_of(found)
        self._up_to[alias] = keys[-1] if len(keys) == CHUNK else int(end)
        return keys


class FailedPruner:
    """Deletes up to 500 buried jobs that ended so many seconds ago whenever it is called; finished
    ones are pruned by their index, or in the archive."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        """``seconds`` is asked at each call; 0 = they are kept for good."""
        self._seconds = seconds
        self._sweep = Sweep()

    def __call__(self, table: Table) -> int:
        """How many were deleted."""
        seconds = self._seconds()
        if not seconds:
            return 0
        old = f"status = {Status.BURIED:d} AND {table.dialect.is_past('finished_at', '%s')}"
        keys = self._sweep.next_keys(table, old, [seconds])
        return delete_unlocked(table, table.name, keys, f"AND {old}", [seconds])


def keys_of(found: list[tuple[Any, ...]]) -> list[Any]:
    return sorted(key for (key,) in found)
