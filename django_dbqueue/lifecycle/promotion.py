"""delayed -> ready, as soon as a job's time has come; and when the next one moves by itself."""

from ..states import HELD, PROMOTABLE, Status
from .execute import changed_once, placeholders, rows, try_once_in_transaction, unlocked_keys
from .table import Table

CHUNK = 500  # rows


def promote(table: Table) -> int:
    """Make due delayed jobs ready, up to 500; how many. Locked rows are left for another pass."""
    is_due = table.dialect.is_past("retry_at")
    due = rows(
        table.connection,
        f"SELECT {table.pk} FROM {table.name} WHERE {PROMOTABLE} AND {is_due} "
        f"ORDER BY retry_at LIMIT {CHUNK}",
        [],
    )
    keys = sorted(key for (key,) in due)

    def set_ready() -> int:
        free = sorted(unlocked_keys(table, keys))
        if not free:
            return 0
        return changed_once(
            table.connection,
            f"UPDATE {table.by_key} SET status = {Status.READY:d}, retry_at = NULL "
            f"WHERE {PROMOTABLE} AND {is_due} AND {table.pk} IN ({placeholders(free)})",
            free,
        )

    return (try_once_in_transaction(table.connection, set_ready) or 0) if keys else 0


def next_moves(table: Table) -> tuple[float | None, float | None]:
    """Seconds until the next delayed job is due, and until the next claim's time is over; 0 or
    less when it is, None without any."""
    # No seconds where somebody wrote by hand what is no instant.
    first = f"SELECT COALESCE({table.dialect.seconds_until('retry_at')}, 0) FROM {table.name} WHERE"
    soonest = "AND retry_at IS NOT NULL ORDER BY retry_at LIMIT 1"
    sql = f"SELECT ({first} {PROMOTABLE} {soonest}), ({first} {HELD} {soonest})"
    [found] = rows(table.connection, sql, [])
    due, over = (None if seconds is None else float(seconds) for seconds in found)
    return due, over
