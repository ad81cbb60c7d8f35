"""Which queues of a table have ready jobs, found by hopping through the index."""

from .execute import rows
from .table import Table


def ready_queues(table: Table, most: int = 1000) -> list[str]:
    """The names of queues with ready jobs, one index look-up each."""
    names: list[str] = []
    while len(names) < most:
        name = _next_queue(table, names[-1] if names else "")
        if name is None:
            break
        names.append(name)
    return names


def _next_queue(table: Table, last: str) -> str | None:
    found = rows(
        table.connection,
        f"SELECT queue FROM {table.name} WHERE status = 0 AND queue > %s ORDER BY queue LIMIT 1",
        [last],
    )
    return str(found[0][0]) if found else None
