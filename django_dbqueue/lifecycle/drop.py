"""ready or delayed -> buried: a full queue makes room for a new job; or done, as expired."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from django.db import transaction

from ..exceptions import QueueFull
from ..guard import capture
from ..signals import job_dropped
from ..states import MOVES, Status
from . import archive
from .claim_end import RetryDecision, freed
from .errors import appended, entry
from .execute import changed_once, placeholders, rows
from .failures import RECORDED, failure_of
from .holder import as_done
from .key_wakeup import ending_claims
from .keys import HAS_KEY, PARKED
from .table import Table

logger = logging.getLogger("django_dbqueue")

PRIORITIES_MAX = 20  # that are looked through for one enqueueing
SPARE = 20  # jobs more than are needed that are looked at: others may be claiming some
CHUNK = 500
BUSY = "the queue was full: dropped for a newer job (system busy)"

Victim = tuple[Any, int, Any, int, bool]  # key, status, errors, attempts, has expired


def drop(table: Table, queue: str, count: int, priority: int) -> bool:
    """Make room for so many jobs in the caller's transaction; False = nothing was written, since
    so few wait that are no more urgent than ``priority`` and that nobody holds.

    The oldest ready jobs of the least urgent priority go first, then those that wait for their
    concurrency key; of delayed ones those that are due first. Those that had expired are done; the
    others are buried, or in the archive, with an error.
    """
    victims = _victims(table, queue, count, priority)
    if len(victims) < count:
        return False
    with ending_claims(table, [victim[0] for victim in victims]):
        _drop(table, queue, victims)
    return True


def _drop(table: Table, queue: str, victims: Sequence[Victim]) -> None:
    expired = [victim for victim in victims if victim[4]]
    for status in sorted(MOVES["drop"][0]):
        sets, params = as_done(table)
        sets += ", dequeued_time = NULL"
        _write(table, [one for one in expired if one[1] == status], status, sets, params)
        _bury(table, [one for one in victims if one[1] == status and not one[4]], status)
    busy = sorted(victim[0] for victim in victims if not victim[4])
    tell = _teller(table, queue, busy)
    if table.policy.archive is not None:
        for start in range(0, len(busy), CHUNK):
            chunk = busy[start : start + CHUNK]
            archive.copy_to_archive(table, chunk)
            archive.remove(table, chunk, f"status = {Status.BURIED:d}", [])
    transaction.on_commit(tell, using=table.connection.alias, robust=True)


def _victims(table: Table, queue: str, count: int, priority: int) -> list[Victim]:
    """Locked, most dispensable first."""
    found: list[Victim] = []
    for keys in _candidates(table, queue, count + SPARE, priority):
        for start in range(0, len(keys), CHUNK):
            found += _locked(table, keys[start : start + CHUNK])
            if len(found) >= count:
                return found[:count]
    return found


def _candidates(table: Table, queue: str, most: int, priority: int) -> Iterator[list[Any]]:
    """Keys, by look-ups in the index that claims use: its order is not the one wanted here."""
    place = table.dialect.placeholder(queue)
    ready = f"FROM {table.name} WHERE status = {Status.READY:d} AND queue = {place} AND priority"
    below, last = ">= %s", [priority]
    for _ in range(PRIORITIES_MAX):
        [(least,)] = rows(table.connection, f"SELECT MAX(priority) {ready} {below}", [queue, *last])
        if least is None:
            break
        sql = f"SELECT {table.pk} {ready} = %s ORDER BY {table.pk} LIMIT %s"
        yield [key for (key,) in rows(table.connection, sql, [queue, least, most])]
        below, last = ">= %s AND priority < %s", [priority, least]
    if table.takes_keys:
        parked = f"FROM {table.name} WHERE {PARKED} AND {HAS_KEY} AND queue = {place}"
        sql = f"SELECT {table.pk} {parked} AND priority >= %s ORDER BY priority DESC, {table.pk}"
        yield [key for (key,) in rows(table.connection, f"{sql} LIMIT %s", [queue, priority, most])]
    delayed = f"FROM {table.name} WHERE status = {Status.DELAYED:d} AND retry_at IS NOT NULL"
    sql = f"SELECT {table.pk} {delayed} AND queue = {place} AND priority >= %s ORDER BY retry_at"
    yield [key for (key,) in rows(table.connection, f"{sql} LIMIT %s", [queue, priority, most])]


def _locked(table: Table, keys: Sequence[Any]) -> list[Victim]:
    """Those that still wait and that nobody else has locked, in the order of the keys."""
    features, ops = table.connection.features, table.connection.ops
    can_skip = features.has_select_for_update_skip_locked
    locking = ops.for_update_sql(skip_locked=can_skip) if features.has_select_for_update else ""
    waiting = ", ".join(f"{status:d}" for status in sorted(MOVES["drop"][0]))
    is_expired = f"(expires_at IS NOT NULL AND expires_at <= {table.dialect.now})"
    sql = f"SELECT {table.pk}, status, errors, attempts, {is_expired} FROM {table.by_key} WHERE "
    sql += f"{table.pk} IN ({placeholders(keys)}) AND status IN ({waiting}) {locking}"
    found = {row[0]: row for row in rows(table.connection, sql, keys)}
    return [found[key] for key in keys if key in found]


def _bury(table: Table, victims: Sequence[Victim], status: Status) -> None:
    """Most have no errors yet, and get the same."""
    sets, params = freed(table, RetryDecision(Status.BURIED, 0, "dropped"))
    by_text: dict[tuple[str, str], list[Victim]] = {}
    for victim in victims:
        new = entry(QueueFull(BUSY), attempt=victim[3], owner=None)
        recorded = appended(victim[2], new), failure_of(new).fingerprint
        by_text.setdefault(recorded, []).append(victim)
    for recorded, alike in by_text.items():
        _write(table, alike, status, f"{sets}, {RECORDED}", [*params, *recorded])


def _write(
    table: Table, victims: Sequence[Victim], status: Status, sets: str, params: Sequence[Any]
) -> None:
    keys = sorted(victim[0] for victim in victims)
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        among = f"{table.pk} IN ({placeholders(chunk)}) AND +status = {status:d}"
        sql = f"UPDATE {table.by_key} SET {sets} WHERE {among}"
        changed_once(table.connection, sql, [*params, *chunk])


def _teller(table: Table, queue: str, keys: Sequence[Any]) -> Any:
    """What tells, after the commit, of jobs as they are now; they may be in the archive then."""
    jobs: list[Any] = []
    if keys and job_dropped.has_listeners(table.model):
        found = table.model._base_manager.using(table.connection.alias).order_by("pk")
        for start in range(0, len(keys), CHUNK):
            jobs += found.filter(pk__in=keys[start : start + CHUNK])
    return partial(_tell, table, queue, len(keys), jobs)


def _tell(table: Table, queue: str, count: int, jobs: Sequence[Any]) -> None:
    if count:
        message = "%s: queue %s is full, and newer jobs came; jobs that were dropped: %d"
        logger.warning(message, table.label, queue, count)
    for job in jobs:
        with capture():
            job_dropped.send_robust(sender=table.model, job=job, error=QueueFull(BUSY))
