"""Jobs that are named by their keys, of many claims in one statement: for a server that holds
claims for others.

All of it runs in the caller's transaction, and answers with the keys whose rows were written. The
rows of the others were not as they had to be, or somebody has locked them: nobody waits for that,
since a user's transaction may last for hours.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..states import MOVES, Status
from .claim_end import ONE_LESS, ONE_MORE, RetryDecision, claim_end, freed
from .execute import changed_once
from .key_wakeup import ending_claims
from .table import Table

Claims = Mapping[Any, str]  # by the key of a job, the owner that holds it
Change = tuple[str, Sequence[Any]]  # further assignments in SQL, and their parameters
NO_CHANGE: Change = ("", ())
UNCLAIMED = MOVES["delete"][0] - {Status.DONE}


@dataclass(slots=True)
class Done:
    """The keys of the rows that were written, and of those that were not since they are locked."""

    keys: list[Any] = field(default_factory=list)
    locked: list[Any] = field(default_factory=list)

    def add(self, other: "Done") -> None:
        self.keys += other.keys
        self.locked += other.locked


def claim(
    table: Table,
    keys: Collection[Any],
    owner: str,
    sources: Collection[Status] = (Status.READY,),
    allowance: float = 0,
    change: Change = NO_CHANGE,
) -> Done:
    """ready (or another state that is given) -> claimed, as ``claim.claim``."""
    found = _locked(table, keys, f"status IN ({_numbers(sources)})")
    end, params = claim_end(table, allowance)
    sets = (
        f"status = {Status.CLAIMED:d}, owner = %s, attempts = {ONE_MORE}, finished_at = NULL, "
        f"failed_at = NULL, dequeued_time = {table.dialect.now}, retry_at = {end}"
    )
    if table.policy.dedup_until == "claim":
        sets += ", dedup_key = NULL"
    return _written(table, found, sets, [owner, *params], change)


def end_claims(
    table: Table, claims: Claims, decision: RetryDecision, change: Change = NO_CHANGE
) -> Done:
    """claimed -> what the decision says, the attempt taken back."""
    found = _locked(table, claims.keys(), *_held(table, claims))
    sets, params = freed(table, decision)
    with ending_claims(table, found.keys):
        return _written(table, found, f"{sets}, attempts = {ONE_LESS}", params, change)


def touch(table: Table, claims: Claims, allowance: float = 0) -> Done:
    """Restart the time to run."""
    found = _locked(table, claims.keys(), *_held(table, claims))
    end, params = claim_end(table, allowance)
    return _written(table, found, f"retry_at = {end}", params, NO_CHANGE)


def kick(table: Table, keys: Collection[Any], change: Change = NO_CHANGE) -> Done:
    """buried or delayed -> ready, with all attempts."""
    found = _locked(table, keys, f"status IN ({_numbers(MOVES['kick'][0])})")
    sets = f"status = {Status.READY:d}, retry_at = NULL, attempts = 0, crashes = 0, losses = 0"
    sets += ", finished_at = NULL, failed_at = NULL, failure = NULL"
    return _written(table, found, sets, [], change)


def delete(table: Table, keys: Collection[Any], claims: Claims) -> Done:
    """Delete jobs that nobody holds, or that are held by the ``claims``."""
    held, params = _held(table, claims)
    found = _locked(table, keys, f"(status IN ({_numbers(UNCLAIMED)}) OR {held})", params)
    if found.keys:
        among, these = table.dialect.among(table.pk, found.keys)
        sql = f"{table.dialect.delete_by_key(table.name)} WHERE {among}"
        with ending_claims(table, found.keys):
            changed_once(table.connection, sql, these)
    return found


def _held(table: Table, claims: Claims) -> Change:
    """The condition that a row is held by one of the claims, and its parameters."""
    if not claims:
        return "1 = 0", []
    owners = " ".join(["WHEN %s THEN %s"] * len(claims))
    condition = f"(status = {Status.CLAIMED:d} AND owner = CASE {table.pk} {owners} END)"
    return condition, [value for pair in claims.items() for value in pair]


def _locked(
    table: Table, keys: Collection[Any], condition: str, params: Sequence[Any] = ()
) -> Done:
    """The keys of the rows that fulfil a condition: of those that nobody else can change any more,
    and of those that somebody has locked."""
    if not keys:
        return Done()
    features, ops = table.connection.features, table.connection.ops
    skips = features.has_select_for_update_skip_locked
    lock = ops.for_update_sql(skip_locked=skips) if features.has_select_for_update else ""
    found = _meeting(table, keys, condition, params, lock)
    left = set(keys).difference(found) if skips else set()
    return Done(found, _meeting(table, left, condition, params) if left else [])


def _meeting(
    table: Table, keys: Collection[Any], condition: str, params: Sequence[Any], lock: str = ""
) -> list[Any]:
    among, these = table.dialect.among(table.pk, sorted(keys))
    sql = f"SELECT {table.pk} FROM {table.by_key} WHERE {among} AND {condition} "
    sql += f"ORDER BY {table.pk} {lock}"
    with table.connection.cursor() as cursor:
        cursor.execute(sql, [*these, *params])
        return [key for (key,) in cursor.fetchall()]


def _written(table: Table, found: Done, sets: str, params: Sequence[Any], change: Change) -> Done:
    also, values = change
    if found.keys:
        among, these = table.dialect.among(table.pk, found.keys)
        sql = f"UPDATE {table.by_key} SET {sets}{also} WHERE {among}"
        changed_once(table.connection, sql, [*params, *values, *these])
    return found


def _numbers(states: Collection[Status]) -> str:
    return ", ".join(str(int(status)) for status in sorted(states))
