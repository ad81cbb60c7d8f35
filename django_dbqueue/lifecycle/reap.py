"""Jobs that come back by themselves: those whose owner is gone, or over its time.

Each step looks first and then compares-and-sets on what it saw, so two reapers do no harm.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from ..dialects.types import RowsLocked
from ..exceptions import DBQueueError, TimeToRunExceeded
from ..states import HELD
from .claim_end import (
    LOST,
    MAX_COUNT,
    ONE_LESS,
    ONE_MORE_LOSS,
    UNHARMED,
    RetryDecision,
    after_crash,
    after_overdue,
    freed,
    owned,
)
from .errors import appended, entry
from .execute import (
    changed_once,
    retry,
    rows,
    try_once,
    try_once_in_transaction,
    unlocked_keys,
)
from .failures import RECORDED, failure_of
from .held import Held, find_held
from .key_wakeup import ending_claims
from .policy import MAX_CRASHES
from .table import Table

BELONGS = "owner LIKE %s AND retry_at IS NOT NULL"
COUNT_LOSS = f", losses = {ONE_MORE_LOSS}"
KEYS = 100  # in a list: with many more a database may read the whole table


class WorkerLost(DBQueueError):
    """The worker died, or was cut off, while it had the job."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What is known of a run that was cut short: how long it took, and where it was."""

    seconds: float | None = None
    stack: str = ""


@dataclass(frozen=True, slots=True)
class Reaped:
    """A job that was taken from an owner, what became of it, and what it is charged with."""

    held: Held
    decision: RetryDecision
    error: Exception | None = None


NOTHING: Mapping[str, Trace] = MappingProxyType({})


def find_overdue(table: Table) -> list[Held]:
    """Up to 500 claims whose time is over."""
    return find_held(table, table.dialect.is_past("retry_at"), [], with_own=True)


def end_overdue(table: Table, found: list[Held]) -> list[Reaped]:
    """End claims whose time is over; it counts as a failed attempt."""
    return _each(table, found, partial(_end_overdue, table))


def reap_owner(
    table: Table,
    prefix: str,
    started: Mapping[str, Trace] | None = None,
    overdue: Mapping[str, Trace] = NOTHING,
    waited: Set[str] = frozenset(),
) -> list[Reaped]:
    """Give back up to 500 jobs of owners that begin with ``prefix``, which is known to be gone.

    ``started`` names the keys, as text, that were being run when somebody saw the process die:
    those are charged a crash, and the third one buries. Without it the whole worker was lost:
    nobody knows what ran, so that none is charged and the loss is counted for all. The attempt is
    taken back from all. ``overdue`` names those that were stopped for it: a failed attempt; and
    ``waited`` those that had started and did nothing then: the loss is counted.
    ``RowsLocked`` when some are left and all of these are locked.
    """

    table.dialect.catch_up()
    started_or_none = started or {}
    gone = f"{prefix}%"
    found = find_held(table, BELONGS, [gone], with_own=bool(overdue))
    ended = overdue.keys() | started_or_none.keys()

    def end(held: Held) -> Reaped | None:
        key = str(held.key)
        if key in overdue:
            return _end_overdue(table, held, overdue[key])
        return _end_crashed(table, held, started_or_none[key])

    reaped = _each(table, [held for held in found if str(held.key) in ended], end)
    others = [held for held in found if str(held.key) not in ended]
    lost = [held for held in others if started is None or str(held.key) in waited]
    if lost:
        reaped += GivingBack(table, LOST, COUNT_LOSS).all(lost, gone)
    if started is not None:
        unharmed = [held for held in others if str(held.key) not in waited]
        reaped += GivingBack(table).all(unharmed, gone)
    if found and not reaped and find_held(table, BELONGS, [gone]):
        raise RowsLocked(f"{table.label}: jobs of {prefix} are locked by transactions")
    return reaped


@dataclass(frozen=True)
class GivingBack:
    """Gives back claims, the attempt taken back."""

    table: Table
    decision: RetryDecision = UNHARMED
    more: str = ""

    @property
    def sets(self) -> tuple[str, list[float]]:
        sets, params = freed(self.table, self.decision)
        return f"{sets}, attempts = {ONE_LESS}{self.more}", params

    def one(self, held: Held) -> Reaped | None:
        return _reaped(self.table, held, *self.sets, self.decision)

    def all(self, found: list[Held], owners: str) -> list[Reaped]:
        """Together, unless some of them move on meanwhile."""
        table = self.table
        if len(found) < 2:
            return _each(table, found, self.one)

        def together() -> list[Held]:
            free = set(unlocked_keys(table, [held.key for held in found]))
            mine = sorted((held for held in found if held.key in free), key=attrgetter("key"))
            if not mine:
                return []
            sets, params = self.sets
            among, keys = table.dialect.among(table.pk, [held.key for held in mine])
            sql = f"UPDATE {table.by_key} SET {sets} WHERE {among} AND {HELD} AND owner LIKE %s"
            with ending_claims(table, [held.key for held in mine]):
                count = changed_once(table.connection, sql, [*params, *keys, owners])
            if count < len(mine):
                raise _MovedOn
            return mine

        try:
            given_back = try_once_in_transaction(table.connection, together)
        except _MovedOn:
            return _each(table, found, self.one)
        return [Reaped(held, self.decision) for held in given_back or ()]


class _MovedOn(DBQueueError):
    """Nothing is written: some rows are not as they were seen."""


def give_back(table: Table, owner: str) -> list[Reaped]:
    """Give back, unharmed, what one claim took whose answer never arrived."""
    table.dialect.catch_up()
    given_back: list[Reaped] = []
    while unsure := find_held(table, "owner = %s AND retry_at IS NOT NULL", [owner]):
        # Not skipped where it is locked: nobody comes by again.
        step = [retry(table.connection, partial(GivingBack(table).one, one)) for one in unsure]
        if not any(step):
            break
        given_back += [one for one in step if one is not None]
    return given_back


def give_back_unknown(
    table: Table, prefix: str, known: Set[tuple[str, Any]]
) -> tuple[int, list[Reaped]]:
    """Give back, unharmed, what owners that begin with ``prefix`` have claimed and is not among the
    ``known`` (owner, key); how many there were, and those that nobody had locked.

    No such owner may claim meanwhile.
    """
    table.dialect.catch_up()
    owners = f"{prefix}%"
    sql = f"SELECT owner, {table.pk} FROM {table.name} WHERE {HELD} AND {BELONGS}"
    claimed = rows(table.connection, sql, [owners])
    unknown = sorted(key for owner, key in claimed if (owner, key) not in known)
    given_back: list[Reaped] = []
    for start in range(0, len(unknown), KEYS):
        among, these = table.dialect.among(table.pk, unknown[start : start + KEYS])
        found = find_held(table, f"{among} AND {BELONGS}", [*these, owners])
        given_back += _each(table, found, GivingBack(table).one)
    return len(unknown), given_back


def _each(table: Table, found: list[Held], step: Callable[[Held], Reaped | None]) -> list[Reaped]:
    """Take a step with every row that is not locked; those for which it was taken.

    A lock that comes up meanwhile costs one wait and ends the pass.
    """
    probe = partial(unlocked_keys, table, [held.key for held in found])
    free = set(try_once(table.connection, probe) or ())
    reaped: list[Reaped] = []
    for held in found:
        if held.key not in free:
            continue
        # None has two meanings to tell apart: a lock, and a row that had moved on.
        answer = try_once(table.connection, lambda held=held: [step(held)])  # type: ignore[misc]
        if answer is None:
            break
        reaped += [one for one in answer if one is not None]
    return reaped


def _end_crashed(table: Table, held: Held, trace: Trace) -> Reaped | None:
    crashes = min(held.crashes + 1, MAX_COUNT)
    decision = after_crash(crashes)
    what = "the worker died with it"
    error = WorkerLost(f"{what}, crash {crashes} of {MAX_CRASHES}: {decision}")
    decision, recorded = _recorded(decision, held, error, trace, what)
    sets, params = freed(table, decision)
    sets += f", attempts = {ONE_LESS}, crashes = %s, {RECORDED}"
    return _reaped(table, held, sets, [*params, crashes, *recorded], decision, error)


def _end_overdue(table: Table, held: Held, stopped: Trace | None = None) -> Reaped | None:
    """A failed attempt. Unless the job was stopped, its owner may touch it between our look and
    our write: then ask for the time once more."""
    how = "nothing was heard of it" if stopped is None else "it was stopped"
    what = f"its time to run was over and {how}"
    decision = after_overdue(table.policy, held)
    error = TimeToRunExceeded(f"{what}: {decision}")
    decision, recorded = _recorded(decision, held, error, stopped or Trace(), what)
    sets, params = freed(table, decision)
    still = "" if stopped else f" AND {table.dialect.is_past('retry_at')}"
    values = [*params, *recorded]
    return _reaped(table, held, f"{sets}, {RECORDED}", values, decision, error, still)


def _recorded(
    decision: RetryDecision, held: Held, error: Exception, trace: Trace, words: str
) -> tuple[RetryDecision, list[str]]:
    """The decision with the kind of failure, and what is written of it; ``words`` are those of the
    error without what becomes of the job."""
    new = entry(
        error,
        attempt=held.attempts,
        owner=held.owner,
        claimed=held.claimed,
        seconds=trace.seconds,
        stack=trace.stack,
    )
    failure = failure_of(new, words)
    return decision.after(failure), [appended(held.errors, new), failure.fingerprint]


def _reaped(
    table: Table,
    held: Held,
    sets: str,
    params: Sequence[Any],
    decision: RetryDecision,
    error: Exception | None = None,
    still: str = "",
) -> Reaped | None:
    """Compare-and-set on the owner that was judged; None when the row had moved on."""
    same, owner = owned(table, held.owner)
    sql = f"UPDATE {table.by_key} SET {sets} WHERE {table.pk} = %s AND {HELD} AND {same}{still}"
    with ending_claims(table, [held.key]):
        count = changed_once(table.connection, sql, [*params, held.key, *owner])
    return Reaped(held, decision, error) if count else None
