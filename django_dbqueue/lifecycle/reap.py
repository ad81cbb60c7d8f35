"""Jobs that move by themselves: due ones become ready, orphaned and overdue ones come back.

Each step looks first and then compares-and-sets on what it saw, so two reapers do no harm.
"""

import json
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..dialects.base import RowsLocked
from ..exceptions import DBQueueError, TimeToRunExceeded
from ..states import Status
from .errors import appended, entry
from .execute import again, briefly, briefly_together, changed_once, places, rows, unlocked
from .policy import MAX_CRASHES
from .table import Table

logger = logging.getLogger("django_dbqueue")
CHUNK = 500


class WorkerLost(DBQueueError):
    """The worker died, or was cut off, while it had the job."""


@dataclass(frozen=True, slots=True)
class Held:
    """A claimed row, as the reaper saw it."""

    key: Any
    owner: str
    attempts: int
    crashes: int
    errors: Any


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
    return briefly_together(table.connection, partial(_set_ready, table, keys)) or 0


def _set_ready(table: Table, keys: list[Any]) -> int:
    free = sorted(unlocked(table, keys))
    if not free:
        return 0
    return changed_once(
        table.connection,
        f"UPDATE {table.by_key} SET status = 0, retry_at = NULL WHERE status = 3 "
        f"AND {table.dialect.is_past('retry_at')} AND {table.pk} IN ({places(free)})",
        free,
    )


def next_due(table: Table) -> float | None:
    """Seconds until the next delayed job is due, 0 or less when it is; None without any."""
    found = rows(
        table.connection,
        f"SELECT {table.dialect.seconds_until('retry_at')} FROM {table.name} "
        f"WHERE status = 3 AND retry_at IS NOT NULL ORDER BY retry_at LIMIT 1",
        [],
    )
    return float(found[0][0]) if found else None


def reap_overdue(table: Table) -> int:
    """End claims whose time is over; it counts as a failed attempt."""
    overdue = _held(table, table.dialect.is_past("retry_at"), [])
    return _each(table, overdue, partial(_end_overdue, table))


def reap_owner(
    table: Table,
    prefix: str,
    started: Collection[str] | None = None,
    overdue: Collection[str] = (),
) -> int:
    """Give back up to 500 jobs of owners that begin with ``prefix``, which is known to be gone.

    ``started`` names the keys, as text, that were being run; without it any of them may have
    been. Those are charged a crash, and the third one buries; the attempt is taken back from
    all. ``overdue`` names those that were stopped for it: a failed attempt. ``RowsLocked`` when
    some are left and all of these are locked.
    """

    def free(held: Held) -> int:
        if str(held.key) in overdue:
            return _end_overdue(table, held, stopped=True)
        crashed = started is None or str(held.key) in started
        return _give_back(table, held, crashed=crashed)

    def look() -> list[Held]:
        return _held(table, "owner LIKE %s AND retry_at IS NOT NULL", [f"{prefix}%"])

    found = look()
    total = _each(table, found, free)
    if found and not total and look():
        raise RowsLocked(f"{table.label}: jobs of {prefix} are locked by transactions")
    return total


def give_back(table: Table, owner: str) -> int:
    """Give back, unharmed, what one claim took whose answer never arrived."""
    unsure = _held(table, "owner = %s AND retry_at IS NOT NULL", [owner])
    # Not skipped where it is locked: nobody comes by again.
    return sum(
        again(table.connection, partial(_give_back, table, held, crashed=False)) for held in unsure
    )


def _each(table: Table, found: list[Held], step: Callable[[Held], int]) -> int:
    """Take a step with every row that is not locked; how many took it.

    A lock that comes up meanwhile costs one wait and ends the pass.
    """
    probe = partial(unlocked, table, [held.key for held in found])
    free = set(briefly(table.connection, probe) or ())
    total = 0
    for held in found:
        if held.key in free:
            count = briefly(table.connection, partial(step, held))
            if count is None:
                break
            total += count
    return total


def _held(table: Table, condition: str, params: list[Any]) -> list[Held]:
    found = rows(
        table.connection,
        f"SELECT {table.pk}, owner, attempts, crashes, errors FROM {table.name} "
        f"WHERE status = 1 AND {condition} ORDER BY retry_at LIMIT {CHUNK}",
        params,
    )
    return [Held(*row) for row in found]


def _give_back(table: Table, held: Held, *, crashed: bool) -> int:
    if not crashed:
        return _set_free(table, held, Status.READY, held.crashes, held.errors)
    crashes = held.crashes + 1
    status = Status.BURIED if crashes >= MAX_CRASHES else Status.READY
    then = "buried" if status is Status.BURIED else "it runs again, alone"
    error = WorkerLost(f"the worker died with it, {crashes} of {MAX_CRASHES} times: {then}")
    errors = appended(held.errors, entry(error, attempt=held.attempts, owner=held.owner))
    return _set_free(table, held, status, crashes, errors)


def _set_free(table: Table, held: Held, status: Status, crashes: int, errors: Any) -> int:
    """Compare-and-set on the owner that was judged; the attempt is taken back."""
    sets = (
        f"status = {status:d}, owner = NULL, dequeued_time = NULL, retry_at = NULL, "
        f"attempts = %s, crashes = %s, errors = %s"
    )
    if status is Status.BURIED:
        sets += f", dedup_key = NULL, finished_at = {table.dialect.now}"
    errors = errors if isinstance(errors, str) else json.dumps(errors)
    values = [max(0, held.attempts - 1), crashes, errors]
    return changed_once(
        table.connection,
        f"UPDATE {table.by_key} SET {sets} WHERE {table.pk} = %s AND status = 1 AND owner = %s",
        [*values, held.key, held.owner],
    )


def _end_overdue(table: Table, held: Held, *, stopped: bool = False) -> int:
    """A failed attempt. Unless the job was stopped, its owner may touch it between our look and
    our write: then ask for the time once more."""
    used_up = held.attempts >= table.policy.max_attempts
    then = "buried: the attempts are used up" if used_up else "retried"
    what = "it was stopped" if stopped else "nothing was heard of it"
    error = TimeToRunExceeded(f"its time to run was over and {what}: {then}")
    errors = appended(held.errors, entry(error, attempt=held.attempts, owner=held.owner))
    dialect = table.dialect
    status = Status.BURIED if used_up else Status.DELAYED
    retry_at = "NULL" if used_up else dialect.now_plus("%s")
    params = [] if used_up else [table.policy.backoff.seconds(held.attempts)]
    sets = (
        f"status = {status:d}, owner = NULL, dequeued_time = NULL, retry_at = {retry_at}, "
        f"errors = %s"
    )
    if used_up:
        sets += f", dedup_key = NULL, finished_at = {dialect.now}"
    return changed_once(
        table.connection,
        f"UPDATE {table.by_key} SET {sets} WHERE {table.pk} = %s AND status = 1 "
        f"AND owner = %s{'' if stopped else ' AND ' + dialect.is_past('retry_at')}",
        [*params, errors, held.key, held.owner],
    )
