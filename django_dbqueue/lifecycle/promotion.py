"""delayed -> ready, as soon as a job's time has come; and when the next one moves by itself."""

import time

from ..states import HELD, PROMOTABLE, Status
from .execute import changed_once, placeholders, rows, try_once_in_transaction, unlocked_keys
from .low_instants import LowInstant, LowInstants
from .table import Table

SOON = 2.0  # seconds; who remembers up to where all was seen comes back before
KINDS = 2  # of rows that are looked at in one statement
Moves = tuple[float | None, float | None]


def promote(table: Table, low: LowInstant | None = None) -> int:
    """Make due delayed jobs ready, up to 500; how many. Locked rows are left for another pass."""
    is_due = table.dialect.is_past("retry_at")
    keys = sorted((low or LowInstant()).first(table, table.name, "retry_at", 0, PROMOTABLE))

    def set_ready() -> int:
        free = sorted(unlocked_keys(table, keys))
        if not free:
            return 0
        # Put like this no index over both is taken, which may lead through all that are due.
        return changed_once(
            table.connection,
            f"UPDATE {table.by_key} SET status = {Status.READY:d}, retry_at = NULL "
            f"WHERE +{PROMOTABLE} AND CASE WHEN {is_due} THEN 1 END = 1 "
            f"AND {table.pk} IN ({placeholders(free)})",
            free,
        )

    return (try_once_in_transaction(table.connection, set_ready) or 0) if keys else 0


def next_moves(table: Table, lows: LowInstants | None = None) -> Moves:
    """Seconds until the next delayed job is due, and until the next claim's time is over; 0 or
    less when it is, None without any. With ``lows`` in force None also where that is not soon."""
    lows = lows or LowInstants()
    both = lows.delayed, lows.held
    moment = lows.delayed.moment(table) or lows.held.moment(table)
    above = [low.above("retry_at") for low in both]
    began = time.monotonic()
    parts = [
        f"({seconds_until_first(table, kind, condition)})"
        for kind, (condition, _) in zip((PROMOTABLE, HELD), above, strict=True)
    ]
    [found] = rows(
        table.connection, f"SELECT {', '.join(parts)}", [one for _, floor in above for one in floor]
    )
    took = time.monotonic() - began
    seconds = [None if one is None else float(one) for one in found]
    for low, (_, floor), left in zip(both, above, seconds, strict=True):
        if not floor:
            low.looked(table, took, KINDS)
        if left is None or left > 0:
            low.seen_up_to(moment)
    due, over = seconds
    return due, over


def seconds_until_first(table: Table, kind: str, above: str = "") -> str:
    """A query for the seconds until the first row of one kind moves."""
    # No seconds where somebody wrote by hand what is no instant.
    seconds = f"COALESCE({table.dialect.seconds_until('retry_at')}, 0)"
    among = f"{above} AND {table.dialect.is_past('retry_at', f'-({SOON})')}" if above else ""
    return (
        f"SELECT {seconds} FROM {table.name} WHERE {kind} AND retry_at IS NOT NULL{among} "
        f"ORDER BY retry_at LIMIT 1"
    )
