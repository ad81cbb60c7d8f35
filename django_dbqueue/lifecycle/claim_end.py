"""How a job leaves its owner: the columns that every end of a claim sets."""

from ..states import Status
from .policy import MAX_SECONDS
from .retry_decision import RetryDecision
from .table import Table

# A column edited by hand must not make the statement fail: all databases have numbers up to this.
MAX_COUNT = 2**31 - 1
ONE_LESS = f"CASE WHEN attempts BETWEEN 1 AND {MAX_COUNT} THEN attempts - 1 ELSE 0 END"
MAX_LOSSES = 2**15 - 1
ONE_MORE_LOSS = (
    f"CASE WHEN losses BETWEEN 0 AND {MAX_LOSSES - 1} THEN losses + 1 ELSE {MAX_LOSSES} END"
)
ONE_MORE = f"CASE WHEN attempts < {MAX_COUNT} THEN attempts + 1 ELSE {MAX_COUNT} END"


def claim_end(table: Table, allowance: float) -> tuple[str, list[float]]:
    """When a claim ends that is made, or touched, now. No time to run, or one beyond the limit
    of ``enqueue``, counts as the policy's own."""
    seconds = f"CASE WHEN time_to_run BETWEEN 1 AND {MAX_SECONDS} THEN time_to_run ELSE %s END"
    return table.dialect.now_plus(f"{seconds} + %s"), [table.policy.time_to_run, round(allowance)]


def owned(table: Table, owner: str | None) -> tuple[str, list[str]]:
    """The condition, and its parameters, that a row is still its that was seen to have it."""
    if owner is None:
        return "owner IS NULL", []
    return f"owner = {table.dialect.placeholder(owner)}", [owner]


def freed(table: Table, decision: RetryDecision) -> tuple[str, list[float]]:
    """The assignments and their parameters; buried jobs free their ``dedup_key``."""
    sets = f"status = {decision.status:d}, owner = NULL, dequeued_time = NULL, retry_at = "
    if decision.is_buried:
        return f"{sets}NULL, dedup_key = NULL, finished_at = {table.dialect.now}", []
    if decision.status is Status.DELAYED:
        return f"{sets}{table.dialect.now_plus('%s')}", [decision.delay]
    return f"{sets}NULL", []
