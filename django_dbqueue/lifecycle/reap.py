"""Jobs that move by themselves: due ones become ready, orphaned and overdue ones come back.

Each step looks first and then compares-and-sets on what it saw, so two reapers do no harm.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from ..dialects.base import RowsLocked
from ..exceptions import DBQueueError, TimeToRunExceeded
from .claim_end import MAX_COUNT, ONE_LESS, ONE_MORE_LOSS, freed, owned
from .errors import appended, entry
from .execute import (
    changed_once,
    placeholders,
    retry,
    rows,
    try_once,
    try_once_in_transaction,
    unlocked_keys,
)
from .policy import MAX_CRASHES
from .retry_decision import LOST, UNHARMED, RetryDecision, after_crash, after_failure
from .table import Table

CHUNK = 500
KEYS = 100  # in a list: with many more a database may read the whole table


class WorkerLost(DBQueueError):
    """The worker died, or was cut off, while it had the job."""


@dataclass(frozen=True, slots=True)
class Held:
    """A claimed row, as the reaper saw it."""

    key: Any
    queue: str
    owner: str | None  # None only where somebody wrote it by hand
    attempts: int
    crashes: int
    errors: Any


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


def promote(table: Table) -> int:
    """Make due delayed jobs ready, up to 500; how many. Locked rows are left for another pass."""
    is_due = table.dialect.is_past("retry_at")
    due = rows(
        table.connection,
        f"SELECT {table.pk} FROM {table.name} WHERE status = 3 AND {is_due} "
        f"ORDER BY retry_at LIMIT {CHUNK}",
        [],
    )
    keys = sorted(key for (key,) in due)
    if not keys:
        return 0
    return try_once_in_transaction(table.connection, partial(_set_ready, table, keys)) or 0


def _set_ready(table: Table, keys: list[Any]) -> int:
    free = sorted(unlocked_keys(table, keys))
    if not free:
        return 0
    return changed_once(
        table.connection,
        f"UPDATE {table.by_key} SET status = 0, retry_at = NULL WHERE status = 3 "
        f"AND {table.dialect.is_past('retry_at')} AND {table.pk} IN ({placeholders(free)})",
        free,
    )


def next_moves(table: Table) -> tuple[float | None, float | None]:
    """Seconds until the next delayed job is due, and until the next claim's time is over; 0 or
    less when it is, None without any."""
    [(due, over)] = rows(
        table.connection, f"SELECT ({_soonest(table, 3)}), ({_soonest(table, 1)})", []
    )
    return _seconds(due), _seconds(over)


def _soonest(table: Table, status: int) -> str:
    # No seconds where somebody wrote by hand what is no instant.
    return (
        f"SELECT COALESCE({table.dialect.seconds_until('retry_at')}, 0) FROM {table.name} "
        f"WHERE status = {status} AND retry_at IS NOT NULL ORDER BY retry_at LIMIT 1"
    )


def _seconds(found: Any) -> float | None:
    return None if found is None else float(found)


def find_overdue(table: Table) -> list[Held]:
    """Up to 500 claims whose time is over."""
    return _held(table, table.dialect.is_past("retry_at"), [])


def end_overdue(table: Table, found: list[Held]) -> list[Reaped]:
    """End claims whose time is over; it counts as a failed attempt."""
    return _each(table, found, partial(_end_overdue, table))


def reap_owner(
    table: Table,
    prefix: str,
    started: Mapping[str, Trace] | None = None,
    overdue: Mapping[str, Trace] = NOTHING,
) -> list[Reaped]:
    """Give back up to 500 jobs of owners that begin with ``prefix``, which is known to be gone.

    ``started`` names the keys, as text, that were being run when somebody saw the process die:
    those are charged a crash, and the third one buries. Without it the whole worker was lost:
    nobody knows what ran, so that none is charged and the loss is counted for all. The attempt is
    taken back from all. ``overdue`` names those that were stopped for it: a failed attempt.
    ``RowsLocked`` when some are left and all of these are locked.
    """

    def end(held: Held) -> Reaped | None:
        key = str(held.key)
        if key in overdue:
            return _end_overdue(table, held, overdue[key])
        return _end_crashed(table, held, (started or NOTHING)[key])

    def look() -> list[Held]:
        return _held(table, "owner LIKE %s AND retry_at IS NOT NULL", [f"{prefix}%"])

    found = look()
    ended = overdue.keys() | (started or NOTHING).keys()
    decision, more = (LOST, f", losses = {ONE_MORE_LOSS}") if started is None else (UNHARMED, "")
    free = Freeing(table, decision, more)
    reaped = _each(table, [held for held in found if str(held.key) in ended], end)
    reaped += free.all([held for held in found if str(held.key) not in ended], prefix)
    if found and not reaped and look():
        raise RowsLocked(f"{table.label}: jobs of {prefix} are locked by transactions")
    return reaped


@dataclass(frozen=True)
class Freeing:
    """Gives back claims, the attempt taken back."""

    table: Table
    decision: RetryDecision = UNHARMED
    more: str = ""

    @property
    def _sets(self) -> tuple[str, list[float]]:
        sets, params = freed(self.table, self.decision)
        return f"{sets}, attempts = {ONE_LESS}{self.more}", params

    def one(self, held: Held) -> Reaped | None:
        return _reaped(self.table, held, *self._sets, self.decision)

    def all(self, found: list[Held], prefix: str) -> list[Reaped]:
        """Together, unless some of them move on meanwhile."""
        if len(found) < 2:
            return _each(self.table, found, self.one)
        try:
            freed_now = try_once_in_transaction(
                self.table.connection, partial(self._together, found, prefix)
            )
        except _MovedOn:
            return _each(self.table, found, self.one)
        return [Reaped(held, self.decision) for held in freed_now or ()]

    def _together(self, found: list[Held], prefix: str) -> list[Held]:
        table = self.table
        free = set(unlocked_keys(table, [held.key for held in found]))
        mine = sorted((held for held in found if held.key in free), key=attrgetter("key"))
        if not mine:
            return []
        sets, params = self._sets
        among, keys = table.dialect.among(table.pk, [held.key for held in mine])
        sql = f"UPDATE {table.by_key} SET {sets} WHERE {among} AND status = 1 AND owner LIKE %s"
        if changed_once(table.connection, sql, [*params, *keys, f"{prefix}%"]) < len(mine):
            raise _MovedOn
        return mine


class _MovedOn(DBQueueError):
    """Nothing is written: some rows are not as they were seen."""


def give_back(table: Table, owner: str) -> list[Reaped]:
    """Give back, unharmed, what one claim took whose answer never arrived."""
    free = Freeing(table).one
    freed: list[Reaped] = []
    while unsure := _held(table, "owner = %s AND retry_at IS NOT NULL", [owner]):
        # Not skipped where it is locked: nobody comes by again.
        step = [retry(table.connection, partial(free, held)) for held in unsure]
        if not any(step):
            break
        freed += [one for one in step if one is not None]
    return freed


def give_back_unknown(
    table: Table, prefix: str, known: Set[tuple[str, Any]]
) -> tuple[int, list[Reaped]]:
    """Give back, unharmed, what owners that begin with ``prefix`` have claimed and is not among the
    ``known`` (owner, key); how many there were, and those that nobody had locked.

    No such owner may claim meanwhile.
    """
    ours, owners = "retry_at IS NOT NULL AND owner LIKE %s", prefix + "%"
    sql = f"SELECT owner, {table.pk} FROM {table.name} WHERE status = 1 AND {ours}"
    claimed = rows(table.connection, sql, [owners])
    unknown = sorted(key for owner, key in claimed if (owner, key) not in known)
    freed: list[Reaped] = []
    for start in range(0, len(unknown), KEYS):
        among, these = table.dialect.among(table.pk, unknown[start : start + KEYS])
        found = _held(table, f"{among} AND {ours}", [*these, owners])
        freed += _each(table, found, Freeing(table).one)
    return len(unknown), freed


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


def _held(table: Table, condition: str, params: list[Any]) -> list[Held]:
    found = rows(
        table.connection,
        f"SELECT {table.pk}, queue, owner, attempts, crashes, errors FROM {table.name} "
        f"WHERE status = 1 AND {condition} ORDER BY retry_at LIMIT {CHUNK}",
        params,
    )
    return [
        Held(key, queue, owner, _count(attempts), _count(crashes), errors)
        for key, queue, owner, attempts, crashes, errors in found
    ]


def _count(stored: Any) -> int:
    """What the column holds; on SQLite that need not be a number."""
    return stored if isinstance(stored, int) else 0


def _end_crashed(table: Table, held: Held, trace: Trace) -> Reaped | None:
    crashes = min(held.crashes + 1, MAX_COUNT)
    decision = after_crash(crashes)
    error = WorkerLost(f"the worker died with it, crash {crashes} of {MAX_CRASHES}: {decision}")
    sets, params = freed(table, decision)
    sets += f", attempts = {ONE_LESS}, crashes = %s, errors = %s"
    values = [*params, crashes, _errors(held, error, trace)]
    return _reaped(table, held, sets, values, decision, error)


def _end_overdue(table: Table, held: Held, stopped: Trace | None = None) -> Reaped | None:
    """A failed attempt. Unless the job was stopped, its owner may touch it between our look and
    our write: then ask for the time once more."""
    what = "nothing was heard of it" if stopped is None else "it was stopped"
    decision = after_failure(table.policy, held.attempts, TimeToRunExceeded())
    error = TimeToRunExceeded(f"its time to run was over and {what}: {decision}")
    sets, params = freed(table, decision)
    values = [*params, _errors(held, error, stopped or Trace())]
    still = "" if stopped else f" AND {table.dialect.is_past('retry_at')}"
    return _reaped(table, held, f"{sets}, errors = %s", values, decision, error, still)


def _errors(held: Held, error: Exception, trace: Trace) -> str:
    new = entry(
        error,
        attempt=held.attempts,
        owner=held.owner,
        seconds=trace.seconds,
        stack=trace.stack,
    )
    return appended(held.errors, new)


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
    count = changed_once(
        table.connection,
        f"UPDATE {table.by_key} SET {sets} WHERE {table.pk} = %s AND status = 1 AND {same}{still}",
        [*params, held.key, *owner],
    )
    return Reaped(held, decision, error) if count else None
