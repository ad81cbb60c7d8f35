"""Which queues of a table have ready jobs, found by hopping through the index."""

from .execute import rows
from .table import Table


def ready_queues(table: Table, most: int = 1000, after: str = "") -> list[str]:
    """Up to ``most`` names of queues with ready jobs, one index look-up each.

    They begin after the name ``after`` and go on round, so that with the last name of one answer
    the next one finds the rest.
    """
    names = _hop(table, after, None, most)
    if after:
        names += _hop(table, "", after, most - len(names))
    return names


def has_ready(table: Table, queue: str) -> bool:
    """Whether one queue has a ready job."""
    sql = f"SELECT 1 FROM {table.name} WHERE status = 0 AND queue = %s LIMIT 1"
    return bool(rows(table.connection, sql, [queue]))


def _hop(table: Table, last: str, until: str | None, most: int) -> list[str]:
    names: list[str] = []
    while len(names) < most:
        after = names[-1] if names else last
        # '' only by hand; such a job is to be found, too.
        beyond = ">" if names or last else ">="
        name = _next_queue(table, beyond, after, until)
        if name is None:
            break
        names.append(name)
    return names


def _next_queue(table: Table, beyond: str, last: str, until: str | None) -> str | None:
    # The database compares: it may order names otherwise than Python does.
    place, params = table.dialect.place, [last]
    condition = f"queue {beyond} {place(last)}"
    if until is not None:
        condition += f" AND queue <= {place(until)}"
        params.append(until)
    found = rows(
        table.connection,
        f"SELECT queue FROM {table.name} WHERE status = 0 AND {condition} ORDER BY queue LIMIT 1",
        params,
    )
    return found[0][0] if found else None
