"""How a claim ends: what becomes of the job, how that is said, and the columns that say so."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import isinf
from typing import Any

from ..exceptions import Bury, Retry, TimeToRunExceeded
from ..states import Status
from .failures import Failure
from .policy import MAX_CRASHES, MAX_SECONDS, Policy
from .table import Table

# A column edited by hand must not make the statement fail: all databases have numbers up to this.
MAX_COUNT = 2**31 - 1
ONE_LESS = f"CASE WHEN attempts BETWEEN 1 AND {MAX_COUNT} THEN attempts - 1 ELSE 0 END"
MAX_LOSSES = 2**15 - 1
ONE_MORE_LOSS = (
    f"CASE WHEN losses BETWEEN 0 AND {MAX_LOSSES - 1} THEN losses + 1 ELSE {MAX_LOSSES} END"
)
ONE_MORE = f"CASE WHEN attempts < {MAX_COUNT} THEN attempts + 1 ELSE {MAX_COUNT} END"


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """The next state, the seconds until a retry, and both in words; of what was recorded as a
    failure its kind."""

    status: Status
    delay: float
    words: str
    failure: Failure | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.words

    @property
    def is_buried(self) -> bool:
        return self.status is Status.BURIED

    def after(self, failure: Failure) -> "RetryDecision":
        return replace(self, failure=failure)


@dataclass(frozen=True, slots=True)
class OwnEnd:
    """How a job has ended its claim by itself: well, or with an error, and what becomes of it."""

    owner: str
    error: BaseException | None = None
    decision: RetryDecision | None = None


def attempts_max(policy: Policy, job: Any) -> int:
    """The job's own number, where its table has a column for it, or that of the policy."""
    return getattr(job, "max_attempts", None) or policy.max_attempts


def is_last(policy: Policy, jobs: Iterable[Any]) -> bool:
    """Whether the attempt is the last one of any of the jobs."""
    return any(job.attempts >= attempts_max(policy, job) for job in jobs)


def asks_for_retry(policy: Policy, jobs: Iterable[Any], error: BaseException | None) -> bool:
    """Whether it is a plain ``Retry``, which is no failure while there are attempts left."""
    return isinstance(error, Retry) and error.of is None and not is_last(policy, jobs)


def after_failure(policy: Policy, job: Any, error: BaseException) -> RetryDecision:
    """Retried by the policy or by the error's own wish; buried without attempts left."""
    attempts, most = job.attempts, attempts_max(policy, job)
    if isinstance(error, Bury):
        why = f"buried: {error}" if error.of else "buried as it asked"
        return RetryDecision(Status.BURIED, 0, why)
    if attempts >= most:
        used = f"{attempts} of {most} attempts used"
        return RetryDecision(Status.BURIED, 0, f"buried: {used}")
    asked = error.delay if isinstance(error, Retry) else None
    delay = min(policy.pause(attempts) if asked is None else asked, MAX_SECONDS)
    if delay == 0:
        return RetryDecision(Status.READY, 0, "retried at once")
    return RetryDecision(Status.DELAYED, delay, f"retried in {duration(delay)}")


def after_overdue(policy: Policy, held: Any) -> RetryDecision:
    """Of a claimed row whose time to run is over."""
    error = at_end_of_time(TimeToRunExceeded(), held.overdue_pauses, held.attempts)
    return after_failure(policy, held, error)


def at_end_of_time(error: BaseException, pauses: str | None, attempts: int) -> BaseException:
    """What to judge by when a time to run is over: of a job with a column of its own for that, what
    the column says. It holds JSON: the seconds before each next try, of which the last one repeats;
    of an empty list it is final. Anything else, as for a job without it: as any failure."""
    if pauses is None or not isinstance(error, TimeToRunExceeded):
        return error
    try:
        found = json.loads(pauses)
        if found == []:
            return Bury("the end of its time is final", of=error)
        return Retry(found[min(max(attempts, 1), len(found)) - 1], of=error)
    except (ValueError, TypeError, LookupError):
        return error  # a hand wrote it


def after_crash(crashes: int) -> RetryDecision:
    """Runs again apart, and before the last one, which buries, alone: it is certainly its own."""
    if crashes >= MAX_CRASHES:
        return RetryDecision(Status.BURIED, 0, "buried")
    where = "alone" if crashes == MAX_CRASHES - 1 else "among suspects"
    return RetryDecision(Status.READY, 0, f"runs again, {where}")


UNHARMED = RetryDecision(Status.READY, 0, "runs again")
LOST = RetryDecision(Status.READY, 0, "its worker was lost, runs again")


def duration(seconds: float) -> str:
    """``0.3 s``, ``50 s``, ``20 min``, ``1 h 30 min``, ``2 d``: at most two units. In English, for
    logs and commands; ``wording`` has the one for pages."""
    if isinf(seconds):
        return "an eternity"  # by a date that a hand wrote
    return " ".join(f"{amount} {unit}" for amount, unit in units_of(seconds))


def units_of(seconds: float) -> list[tuple[str, str]]:
    """Amounts and units: s, min, h or d."""
    if seconds < 60:
        return [(f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}", "s")]
    minutes = round(seconds / 60)
    if minutes < 60:
        return [(str(minutes), "min")]
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return [(str(hours), "h"), (str(minutes), "min")][: 2 if minutes else 1]
    days, hours = divmod(hours, 24)
    return [(str(days), "d"), (str(hours), "h")][: 2 if hours else 1]


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
        now = table.dialect.now
        own = table.model.burial_columns.items()
        also = "".join(f", {column} = {number():d}" for column, number in own)
        return f"{sets}NULL, dedup_key = NULL, finished_at = {now}, failed_at = {now}{also}", []
    if decision.status is Status.DELAYED:
        return f"{sets}{table.dialect.now_plus('%s')}", [decision.delay]
    return f"{sets}NULL", []
