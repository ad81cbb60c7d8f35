"""What the holder of a claim may do with it; every statement asks for the owner."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from django.db.utils import IntegrityError

from ..exceptions import ClaimLost, TimeToRunExceeded
from ..fields import check_seconds
from ..states import HELD, Status
from .claim_end import ONE_LESS, RetryDecision, after_failure, at_end_of_time, claim_end, freed
from .errors import appended, entry, is_among
from .execute import changed, rows
from .failures import RECORDED, failure_of
from .key_wakeup import ending_claims
from .policy import MAX_SECONDS
from .results import NONE, Results, results_or_none
from .table import Table


@dataclass
class Written:
    """What became of a batch: keys that were written, that another owns by now, that are gone."""

    written: list[Any] = field(default_factory=list)
    lost: list[Any] = field(default_factory=list)
    gone: list[Any] = field(default_factory=list)

    def __add__(self, other: "Written") -> "Written":
        return Written(self.written + other.written, self.lost + other.lost, self.gone + other.gone)


class ClaimState(Enum):
    """What has become of a job since it was claimed."""

    HELD = "its claim is held"
    DONE = "it was completed under this claim"
    LOST = "another owner has it by now"
    GONE = "it was deleted"


def complete(
    table: Table,
    owner: str,
    keys: Sequence[Any],
    results: Results = NONE,
    jobs: Sequence[Any] | None = None,
) -> Written:
    """claimed -> done, or gone at once where the policy keeps no finished jobs.

    ``keys`` are raw, as each ``job.claim_key``; ``results`` are written into each of their rows.
    ``jobs``: at least their instances, where there are some.

    Finished jobs keep their owner, so that after a lost connection the same call tells whether
    the first one had arrived.
    """
    if not keys:
        return Written()
    keys = sorted(keys)  # everybody locks rows in that order
    if _complete(table, owner, keys, results, jobs) == len(keys):
        return Written(written=keys)
    return _judged(table, owner, keys, None if _keeps_no_finished(table) else Status.DONE)


def complete_held(table: Table, owner: str, key: Any, results: Results = NONE) -> bool:
    """Complete one job in the transaction that holds its effects; False = nothing was written.

    Unlike for ``complete`` it is no success that the job is done already, by anybody: these
    effects would be second ones.
    """
    return _complete(table, owner, [key], results) == 1


def _complete(
    table: Table,
    owner: str,
    keys: Sequence[Any],
    results: Results,
    jobs: Sequence[Any] | None = None,
) -> int:
    among, these = table.dialect.among(table.pk, keys)
    mine = f"WHERE {among} AND {HELD} AND owner = %s"
    if _keeps_no_finished(table):
        sql, given = f"{table.dialect.delete_by_key(table.name)} {mine}", list[Any]()
    else:
        sets, params = as_done(table)
        also, values = results
        sql, given = f"UPDATE {table.by_key} SET {sets}{also} {mine}", [*params, *values]
    with ending_claims(table, keys, jobs):
        return _counted(table, sql, [*given, *these, owner], keys)


def claim_state(table: Table, owner: str, key: Any) -> ClaimState:
    """What has become of a job that this owner claimed."""
    found = rows(
        table.connection,
        f"SELECT owner, status FROM {table.by_key} WHERE {table.pk} = %s",
        [key],
    )
    if not found:
        return ClaimState.GONE
    fates = {(owner, Status.CLAIMED): ClaimState.HELD, (owner, Status.DONE): ClaimState.DONE}
    return fates.get(found[0], ClaimState.LOST)


def touch(table: Table, owner: str, keys: Sequence[Any], allowance: float = 0) -> Written:
    """Restart the time to run."""
    end, params = claim_end(table, allowance)
    return _owned(table, owner, keys, f"retry_at = {end}", params, kept=Status.CLAIMED)


def release(
    table: Table, owner: str, keys: Sequence[Any], delay: float = 0, results: Results = NONE
) -> Written:
    """Give jobs back unharmed, the attempt taken back; ready at once or after ``delay`` seconds."""
    delay = check_seconds(delay, "delay", MAX_SECONDS)
    status = Status.DELAYED if delay else Status.READY
    sets, params = freed(table, RetryDecision(status, delay, "released"))
    also, values = results
    sets += f", attempts = {ONE_LESS}{also}"
    return _owned(table, owner, keys, sets, [*params, *values], kept=None)


def move(table: Table, owner: str, keys: Sequence[Any], queue: str) -> Written:
    """Give jobs back unharmed into another queue, the attempt taken back; without its dedup key
    where a job there has the same."""
    sets, params = freed(table, RetryDecision(Status.READY, 0, "moved"))
    sets += f", attempts = {ONE_LESS}, queue = %s"
    try:
        return _owned(table, owner, keys, sets, [*params, queue], kept=None)
    except IntegrityError:
        if len(keys) > 1:
            written = [move(table, owner, [key], queue) for key in keys]
            return sum(written, Written())
    sets += ", dedup_key = NULL"
    return _owned(table, owner, keys, sets, [*params, queue], kept=None)


def fail(
    table: Table, job: Any, error: BaseException, seconds: float | None = None
) -> RetryDecision | None:
    """Record a failed attempt: retried by the policy, or buried when the attempts are used up.

    Raises ``ClaimLost``, and writes nothing, when another owner has the job; None when it is gone.
    """
    key, owner = job.claim_key, job.claim_owner
    # Nobody but its owner writes a claimed row, so reading the columns first is safe.
    stored, claimed, pauses = _stored(table, key, owner, error)
    error = at_end_of_time(error, pauses, job.attempts)
    decision = after_failure(table.policy, job, error)
    new = entry(error, attempt=job.attempts, owner=owner, seconds=seconds, claimed=claimed)
    failure = failure_of(new)
    decision = decision.after(failure)
    sets, params = freed(table, decision)
    also, values = results_or_none(table, job)
    sets = f"{sets}, {RECORDED}{also}"
    given = [*params, appended(stored, new), failure.fingerprint, *values]
    written = _owned(table, owner, [key], sets, given, kept=None, jobs=[job])
    if written.lost and any(is_among(old, new) for (old,) in _now(table, key, "errors")):
        return decision  # a try before had arrived
    return decision if _is_there(table, job, written) else None


def _stored(table: Table, key: Any, owner: str, error: BaseException) -> Sequence[Any]:
    # Asked for only where it counts: a migration may have taken the column away meanwhile.
    pauses = table.overdue_pauses if isinstance(error, TimeToRunExceeded) else "NULL"
    look = partial(
        rows,
        table.connection,
        f"SELECT errors, {table.claimed}, {pauses} FROM {table.by_key} "
        f"WHERE {table.pk} = %s AND owner = %s",
        [key, owner],
    )
    found = look()
    if not found and table.dialect.catch_up():
        found = look()
    return found[0] if found else (None, None, None)


def expire(table: Table, job: Any) -> bool:
    """Finish a job that was found past ``expires_at``: it never ran. False when it is gone."""
    done, params = as_done(table)
    sets = f"{done}, dequeued_time = NULL, attempts = {ONE_LESS}"
    key, owner = job.claim_key, job.claim_owner
    written = _owned(table, owner, [key], sets, params, kept=None, jobs=[job])
    expired = owner, Status.DONE, None
    if written.lost and expired in _now(table, key, "owner, status, dequeued_time"):
        return True  # a try before had arrived
    return _is_there(table, job, written)


def as_done(table: Table) -> tuple[str, list[float]]:
    """A finished job moves once more by itself: to the archive, or away."""
    dialect, retention = table.dialect, table.policy.retention
    sets = f"status = {Status.DONE:d}, finished_at = {dialect.now}, dedup_key = NULL, "
    sets += "failure = NULL, retry_at = "
    if retention is None:
        return f"{sets}NULL", []
    return f"{sets}{dialect.now_plus('%s')}", [retention]


def _now(table: Table, key: Any, columns: str) -> list[tuple[Any, ...]]:
    """What the row holds by now. An end of a claim that clears the owner, and whose answer was
    lost, is known by what else it wrote."""
    sql = f"SELECT {columns} FROM {table.by_key} WHERE {table.pk} = %s"
    return rows(table.connection, sql, [key])


def _is_there(table: Table, job: Any, written: Written) -> bool:
    """Whether it was there to be written."""
    if written.lost:
        raise ClaimLost(f"{table.label} {job.pk}: another owner has it by now; nothing was written")
    return not written.gone


def _keeps_no_finished(table: Table) -> bool:
    return table.policy.retention == 0 and table.policy.archive is None


def _owned(
    table: Table,
    owner: str,
    keys: Sequence[Any],
    sets: str,
    params: Sequence[Any],
    kept: Status | None,
    jobs: Sequence[Any] | None = None,
) -> Written:
    if not keys:
        return Written()
    keys = sorted(keys)
    among, these = table.dialect.among(table.pk, keys)
    sql = f"UPDATE {table.by_key} SET {sets} WHERE {among} AND {HELD} AND owner = %s"
    with ending_claims(table, keys if kept is None else (), jobs):
        count = _counted(table, sql, [*params, *these, owner], keys, kept)
    if count == len(keys):
        return Written(written=keys)
    return _judged(table, owner, keys, kept)


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


def _counted(
    table: Table,
    sql: str,
    params: Sequence[Any],
    keys: Sequence[Any],
    kept: Status | None = Status.DONE,
) -> int:
    """Run a statement over claims, which are ``kept`` or not; how many there were. Before any
    counts as lost it is run once more with all that others have committed."""
    count = changed(table.connection, sql, params)
    if count == len(keys) or not table.dialect.catch_up():
        return count
    again = changed(table.connection, sql, params)
    return again if kept is Status.CLAIMED else count + again
