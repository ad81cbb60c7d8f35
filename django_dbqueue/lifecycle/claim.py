"""ready -> claimed."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from django.db import transaction

from ..dialects import Claim
from ..dialects.base import Row
from ..guard import caught
from ..states import Status
from .errors import appended, entry
from .execute import again, changed, rows
from .free import freed
from .table import Table
from .verdict import Verdict

logger = logging.getLogger("django_dbqueue")


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

    jobs = _built(table, owner, again(table.connection, run))
    return sorted(jobs, key=lambda job: (job.priority, job.pk))


def _built(table: Table, owner: str, claimed: Iterable[Row]) -> Iterator[Any]:
    """The instances of the rows. One that cannot be built is buried: else it would be claimed
    again and again, and nothing behind it in its queue would ever run."""
    for row in claimed:
        built: list[Any] = []
        # Reading a value is a field's code, hence anybody's.
        if error := caught(lambda row=row, built=built: built.append(table.build(row, owner))):  # type: ignore[misc]
            _bury_unread(table, owner, row, error)
        yield from built


def _bury_unread(table: Table, owner: str, row: Row, error: Exception) -> None:
    """By the raw row, since there is no instance."""
    raw = dict(zip([field.name for field in table.fetched], row, strict=False))
    key = raw[table.model._meta.pk.name]
    logger.error("%s %s is buried: its row cannot be read", table.label, key, exc_info=error)
    mine, params = f"{table.pk} = %s AND status = 1 AND owner = %s", [key, owner]
    stored = rows(table.connection, f"SELECT errors FROM {table.by_key} WHERE {mine}", params)
    new = entry(error, attempt=raw["attempts"], owner=owner)
    errors = appended(stored[0][0] if stored else None, new)
    sets, _ = freed(table, Verdict(Status.BURIED, 0, "buried: it cannot be read"))
    changed(
        table.connection,
        f"UPDATE {table.by_key} SET {sets}, errors = %s WHERE {mine}",
        [errors, *params],
    )


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
