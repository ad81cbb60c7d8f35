"""Writing into rows, past those that somebody has locked."""

from collections.abc import Sequence
from typing import Any

from .execute import (
    changed_once,
    in_transaction,
    retry,
    try_once,
    try_once_in_transaction,
    unlocked_keys,
)
from .table import Table


def change_unlocked(
    table: Table,
    sql: str,
    params: Sequence[Any],
    keys: Sequence[Any],
    held: set[Any],
    *,
    is_patient: bool = True,
) -> int:
    """Run a writing statement, which ends in a condition, on those of the rows that nobody has
    locked; the keys of the others are added to ``held``."""
    connection = table.connection

    def change() -> int:
        free = sorted(unlocked_keys(table, keys))
        held.update(set(keys).difference(free))
        if not free:
            return 0
        among, these = table.dialect.among(table.pk, free)
        return changed_once(connection, f"{sql} AND {among}", [*params, *these])

    if connection.features.has_select_for_update_skip_locked:
        run = in_transaction if is_patient else try_once_in_transaction
        return run(connection, change) or 0
    return (retry if is_patient else try_once)(connection, change) or 0
