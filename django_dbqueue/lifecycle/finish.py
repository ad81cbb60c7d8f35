"""What the holder of a claim may do with it; every statement asks for the owner."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..exceptions import ClaimLost
from ..states import Status
from .errors import appended, entry
from .execute import changed, rows
from .free import ONE_LESS, claim_end, freed
from .policy import MAX_SECONDS
from .table import Table
from .verdict import Verdict, after_failure


@dataclass
class Written:
    """What became of a batch: keys that were written, that another owns by now, that are gone."""

    written: list[Any] = field(default_factory=list)
    lost: list[Any] = field(default_factory=list)
    gone: list[Any] = field(default_factory=list)


def complete(table: Table, owner: str, keys: Sequence[Any]) -> Written:
    """claimed -> done, or gone at once where the policy keeps no finished jobs.

    ``keys`` are raw, as each ``job.claim_key``.

    Finished jobs keep their owner, so that after a lost connection the same call tells whether
    the first one had arrived.
    """
    if table.policy.retention == 0 and table.policy.archive is None:
        return _deleted(table, owner, keys)
    sets, params = _done(table)
    return _owned(table, owner, keys, sets, params, kept=Status.DONE)


def touch(table: Table, owner: str, keys: Sequence[Any], allowance: float = 0) -> Written:
    """Restart the time to run."""
    end, params = claim_end(table, allowance)
    return _owned(table, owner, keys, f"retry_at = {end}", params, kept=Status.CLAIMED)


def release(table: Table, owner: str, keys: Sequence[Any], delay: float = 0) -> Written:
    """Give jobs back unharmed, the attempt taken back; ready at once or after ``delay`` seconds."""
    if not 0 <= delay <= MAX_SECONDS:
        raise ValueError(f"delay must be between 0 and {MAX_SECONDS} seconds, not {delay}")
    status = Status.DELAYED if delay else Status.READY
    sets, params = freed(table, Verdict(status, delay, "released"))
    sets += f", attempts = {ONE_LESS}"
    return _owned(table, owner, keys, sets, params, kept=None)


def fail(
    table: Table, job: Any, error: BaseException, seconds: float | None = None
) -> Verdict | None:
    """Record a failed attempt: retried by the policy, or buried when the attempts are used up.

    Raises ``ClaimLost``, and writes nothing, when another owner has the job; None when it is gone.
    """
    verdict = after_failure(table.policy, job.attempts, error)
    return verdict if _end(table, job, verdict, error, seconds) else None


def expire(table: Table, job: Any) -> bool:
    """Finish a job that was found past ``expires_at``: it never ran. False when it is gone."""
    done, params = _done(table)
    sets = f"{done}, dequeued_time = NULL, attempts = {ONE_LESS}"
    return _one(
        table, job, _owned(table, job.claim_owner, [job.claim_key], sets, params, kept=None)
    )


def _done(table: Table) -> tuple[str, list[float]]:
    """A finished job moves once more by itself: to the archive, or away."""
    dialect, retention = table.dialect, table.policy.retention
    sets = f"status = 2, finished_at = {dialect.now}, dedup_key = NULL, retry_at = "
    if retention is None:
        return f"{sets}NULL", []
    return f"{sets}{dialect.now_plus('%s')}", [retention]


def _end(
    table: Table, job: Any, verdict: Verdict, error: BaseException, seconds: float | None
) -> bool:
    """End a claim with an entry in ``errors``. Nobody but its owner writes a claimed row, so
    reading the column first is safe."""
    key, owner = job.claim_key, job.claim_owner
    stored = rows(
        table.connection,
        f"SELECT errors FROM {table.by_key} WHERE {table.pk} = %s AND owner = %s",
        [key, owner],
    )
    new = entry(error, attempt=job.attempts, owner=owner, seconds=seconds)
    errors = appended(stored[0][0] if stored else None, new)
    sets, params = freed(table, verdict)
    return _one(
        table,
        job,
        _owned(table, owner, [key], f"{sets}, errors = %s", [*params, errors], kept=None),
    )


def _one(table: Table, job: Any, written: Written) -> bool:
    """Whether it was there to be written."""
    if written.lost:
        raise ClaimLost(f"{table.label} {job.pk}: another owner has it by now; nothing was written")
    return not written.gone


def _owned(
    table: Table,
    owner: str,
    keys: Sequence[Any],
    sets: str,
    params: Sequence[Any],
    kept: Status | None,
) -> Written:
    if not keys:
        return Written()
    keys = sorted(keys)  # everybody locks rows in that order
    among, these = table.dialect.among(table.pk, keys)
    count = changed(
        table.connection,
        f"UPDATE {table.by_key} SET {sets} WHERE {among} AND status = 1 AND owner = %s",
        [*params, *these, owner],
    )
    if count == len(keys):
        return Written(written=keys)
    return _judged(table, owner, keys, kept)


def _deleted(table: Table, owner: str, keys: Sequence[Any]) -> Written:
    if not keys:
        return Written()
    keys = sorted(keys)
    among, these = table.dialect.among(table.pk, keys)
    count = changed(
        table.connection,
        f"{table.dialect.delete_by_key(table.name)} WHERE {among} AND status = 1 AND owner = %s",
        [*these, owner],
    )
    if count == len(keys):
        return Written(written=keys)
    return _judged(table, owner, keys, kept=None)


def _judged(table: Table, owner: str, keys: list[Any], kept: Status | None) -> Written:
    """Tell apart, after a short count, what was written from what was lost.

    Where the write clears the owner (``kept`` is None) a batch cannot tell them apart any more;
    then all that is left counts as lost, which is exact for a batch of one.
    """
    among, these = table.dialect.among(table.pk, keys)
    sql = f"SELECT {table.pk}, owner, status FROM {table.by_key} WHERE {among}"
    found = {key: (holder, status) for key, holder, status in rows(table.connection, sql, these)}
    result = Written(gone=[key for key in keys if key not in found])
    for key, state in found.items():
        (result.written if state == (owner, kept) else result.lost).append(key)
    return result
