"""Ready jobs from a key on, so that a look passes over nothing below it."""

from typing import Any

from ..states import CLAIMABLE, Status
from .base import Dialect
from .types import Claim, Floor, Statement


def ready_above(
    dialect: Dialect, table: str, pk: str, queue: str, floor: Floor, only: str = ""
) -> Statement:
    """What comes after SELECT: the jobs of the floor's priority, from its key on, in their order.

    An equality with the priority would have the index searched from its beginning. So would any
    other one on a database that does not compare rows.
    """
    priority, key = floor
    above = f"{CLAIMABLE} AND queue = %s AND (priority, {pk}) >= (%s, %s) AND priority <= %s"
    bounds = [queue, priority, key, priority]
    if not dialect.compares_rows:
        above = (
            f"status >= {Status.READY:d} AND status <= {Status.READY:d} AND queue >= %s "
            f"AND queue <= %s AND priority >= %s AND priority <= %s AND {pk} >= %s"
        )
        bounds = [queue, queue, priority, priority, key]
        # Else it may read all from the key on, whatever state and queue they have, and sort them.
        table = f"{table} IGNORE INDEX (PRIMARY)"
    return f"FROM {table} WHERE {above}{only} ORDER BY status, queue, priority, {pk}", bounds


def candidates_above(dialect: Dialect, claim: Claim, most: int, begin: str, end: str) -> Statement:
    """The keys of ``most`` jobs, priority by priority; ``begin`` and ``end`` go around what is
    asked of each."""
    parts, params = [], list[Any]()
    for floor in claim.floors:
        ready, bounds = ready_above(dialect, claim.table, claim.pk, claim.queue, floor, claim.only)
        parts.append(f"{begin}SELECT {claim.pk} {ready} LIMIT %s{end}")
        params += [*bounds, most]
    return f"{' UNION ALL '.join(parts)} LIMIT %s", [*params, most]
