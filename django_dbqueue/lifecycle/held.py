"""Claimed rows, as one who may take them away looks at them."""

from dataclasses import dataclass
from typing import Any

from ..states import HELD
from .execute import rows
from .table import Table

CHUNK = 500  # rows


@dataclass(frozen=True, slots=True)
class Held:
    """A claimed row, as the reaper saw it."""

    key: Any
    queue: str
    owner: str | None  # None only where somebody wrote it by hand
    attempts: int
    crashes: int
    errors: Any
    claimed: Any = None  # when, as the database has it
    # Its own, where the table has columns for that.
    max_attempts: int | None = None
    overdue_pauses: str | None = None


def find_held(
    table: Table, condition: str, params: list[Any], *, with_own: bool = False
) -> list[Held]:
    """Up to 500 that meet a condition, those first whose time ends first. ``with_own``: with the
    columns of its own, without which what is only given back is found where they are gone, too."""
    own = f"{table.max_attempts}, {table.overdue_pauses}" if with_own else "NULL, NULL"
    found = rows(
        table.connection,
        f"SELECT {table.pk}, queue, owner, attempts, crashes, errors, {table.claimed}, "
        f"{own} FROM {table.name} "
        f"WHERE {HELD} AND {condition} ORDER BY retry_at LIMIT {CHUNK}",
        params,
    )
    # On SQLite a column may hold anything.
    return [
        Held(
            *(key, queue, owner),
            attempts if isinstance(attempts, int) else 0,
            crashes if isinstance(crashes, int) else 0,
            errors,
            claimed,
            most if isinstance(most, int) else None,
            pauses if isinstance(pauses, str) else None,
        )
        for key, queue, owner, attempts, crashes, errors, claimed, most, pauses in found
    ]
