"""Jobs that may have killed a worker: told apart from the others, and taken over to run apart.

A suspect died with a process that a living supervisor saw die, or was claimed by two workers that
were lost as a whole. Those with two crashes run alone in their process, so that the third one,
which buries, is certainly their own.
"""

from collections.abc import Sequence
from typing import Any

from ..states import HELD
from .claim import read_back
from .claim_end import claim_end
from .execute import changed, rows
from .policy import MAX_CRASHES, SUSPECT_LOSSES
from .table import Table

# What follows the worker in the owners of a sacrificial child's claims.
SACRIFICIAL = "s"
ALONE = f"crashes >= {MAX_CRASHES - 1}"
SHARED = f"crashes < {MAX_CRASHES - 1} AND (crashes > 0 OR losses >= {SUSPECT_LOSSES})"


def suspects_among(jobs: Sequence[Any]) -> list[Any]:
    """Those that may have killed a worker before."""
    return [job for job in jobs if job.crashes or job.losses >= SUSPECT_LOSSES]


def runs_alone(job: Any) -> bool:
    """Whether its next crash buries it, so that it has to be its own."""
    return bool(job.crashes >= MAX_CRASHES - 1)


def still_held(table: Table, owner: str, keys: Sequence[Any]) -> set[Any]:
    """Those of the keys that this claim has still."""
    among, these = table.dialect.among(table.pk, sorted(keys))
    sql = f"SELECT {table.pk} FROM {table.by_key} WHERE {among} AND {HELD} AND owner = %s"
    return {key for (key,) in rows(table.connection, sql, [*these, owner])}


def take_over(
    table: Table, worker: str, owner: str, limit: int, alone: bool, allowance: float
) -> list[Any]:
    """Up to ``limit`` suspects of one queue, which the ordinary children of a worker have claimed
    and do not run; their claim begins again, under another owner.

    A compare-and-set: what was given back meanwhile, or taken by another, is left.
    """
    waits = (
        f"{HELD} AND retry_at IS NOT NULL AND owner LIKE %s AND owner NOT LIKE %s "
        f"AND {ALONE if alone else SHARED}"
    )
    theirs = [f"{worker}.%", f"{worker}.{SACRIFICIAL}%"]
    found = rows(
        table.connection,
        f"SELECT {table.pk}, queue FROM {table.name} WHERE {waits} ORDER BY retry_at LIMIT {limit}",
        theirs,
    )
    if not found:
        return []
    queue = found[0][1]
    keys = sorted(key for key, its_queue in found if its_queue == queue)
    among, these = table.dialect.among(table.pk, keys)
    end, params = claim_end(table, allowance)
    changed(
        table.connection,
        f"UPDATE {table.by_key} SET owner = %s, retry_at = {end} WHERE {among} AND {waits}",
        [owner, *params, *these, *theirs],
    )
    return read_back(table, queue, owner, sorted(still_held(table, owner, keys)))
