"""ready -> claimed."""

from typing import Any

from django.db import transaction

from ..dialects import Claim
from .execute import again
from .table import Table


def claim(table: Table, queue: str, limit: int, owner: str, allowance: float = 0) -> list[Any]:
    """Claim up to ``limit`` ready jobs of a queue, the most urgent and oldest first.

    The claim ends by itself at ``retry_at``: the job's time to run plus ``allowance`` seconds from
    now. Raises ``TransactionManagementError`` inside ``atomic()``: a claim counts once it is
    committed. Jobs past ``expires_at`` come back with ``has_expired`` and are not to be run.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    if table.connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            "claim() must not run inside atomic(): a job belongs to nobody before the commit"
        )
    request = _request(table, queue, limit, owner, allowance)

    def run() -> list[Any]:
        with table.connection.cursor() as cursor:
            return table.dialect.claim(cursor, request)

    jobs = [table.build(row, owner) for row in again(table.connection, run)]
    return sorted(jobs, key=lambda job: (job.priority, job.pk))


def _request(table: Table, queue: str, limit: int, owner: str, allowance: float) -> Claim:
    dialect = table.dialect
    sets = (
        f"status = 1, owner = %s, attempts = attempts + 1, dequeued_time = {dialect.now}, "
        f"retry_at = {dialect.now_plus('COALESCE(time_to_run, %s) + %s')}"
    )
    if table.policy.dedup_until == "claim":
        sets += ", dedup_key = NULL"
    return Claim(
        table=table.name,
        pk=table.pk,
        columns=table.columns,
        queue=queue,
        limit=limit,
        owner=owner,
        sets=sets,
        params=[owner, table.policy.time_to_run, round(allowance)],
        strict_order=table.policy.strict_order,
    )
