"""ready -> claimed, of each concurrency key no more than may be: counted from living claims.

A claim of jobs with keys holds the row lock of their queue table while it counts and stamps, so
that no other claim does; it keeps nothing that a crash could leave behind. A job that may not be
claimed now is parked, so that no claim meets it again: delayed without a time, until a claim of its
key ends.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any
from uuid import uuid4

from django.apps import apps
from django.db import transaction
from django.db.utils import IntegrityError, InternalError

from ..dialects import Claim
from ..exceptions import Bury, DBQueueError
from ..states import CLAIMABLE, CLAIMABLE_BY_KEY, MOVES, Status
from .claim_end import RetryDecision, freed
from .errors import appended, entry
from .execute import changed_once, in_transaction, placeholders, retry, rows, unlocked_keys
from .failures import RECORDED, failure_of
from .key_facts import Heads, count_claimed, find_heads
from .key_wakeup import wake
from .keys import Rule, rule_in
from .table import Table
from .unlocked import change_unlocked

logger = logging.getLogger("django_dbqueue")

ROUNDS = 100  # of a claim that meets nothing but what has to wait
WINDOW = 100  # candidates of the second round and later ones
CHUNK = 500  # rows of one statement that parks or buries
LOCK = "lock"  # the name of the row of Queue that is locked; no queue table has its job_table


class _NoLock(DBQueueError):
    """The row to be locked is not there yet."""


class _ReadsPast(DBQueueError):
    """The transaction would not see what others claimed before it had the lock."""


@dataclass
class Judged:
    """What one look found: by raw key of the row, or by the concurrency key."""

    taken: list[Any] = field(default_factory=list)
    blocked: set[str] = field(default_factory=set)
    # By concurrency key the buried job whose followers are to be buried.
    doomed: dict[str, Any] = field(default_factory=dict)
    heads: dict[str, Heads] = field(default_factory=dict)


def has_ready_keys(table: Table) -> bool:
    """Whether any ready job of the table has a concurrency key."""
    # In its order, so that no other index is taken, which has all ready jobs.
    sql = (
        f"SELECT concurrency_key FROM {table.name} WHERE {CLAIMABLE} AND concurrency_key >= %s "
        f"ORDER BY concurrency_key LIMIT 1"
    )
    return bool(rows(table.connection, sql, [""]))


def stamp(table: Table, request: Claim) -> list[Any]:
    """Claim ready jobs of a queue, with keys and without; the raw keys of their rows."""
    window, one_by_one, parked = request.limit, False, list[Any]()
    held = set[Any]()  # keys of rows that somebody has locked: they are passed over
    for _ in range(ROUNDS):
        known = len(held)
        try:
            judged = _judged(table, partial(_look, table, request, window, one_by_one, held))
        except _NoLock:
            _make_lock(table)
            continue
        except IntegrityError:
            # A row that was never validated: no statement can write it.
            if one_by_one:
                raise
            one_by_one = True
            continue
        for key, head in judged.doomed.items():
            _bury_followers(table, key, head, held)
        before, parked = parked, _park(table, request.queue, judged, held)
        if judged.taken or not (judged.blocked or judged.doomed or len(held) > known):
            return judged.taken
        if parked and parked == before:
            return []  # what wakes them disagrees with us: a reaper has another try
        window = max(request.limit, WINDOW)
    return []


def _judged(table: Table, look: Callable[[str | None], Judged]) -> Judged:
    """One look, in a transaction that sees what others have claimed."""
    with suppress(_ReadsPast):
        return in_transaction(table.connection, partial(look, ""))
    with suppress(InternalError):
        return in_transaction(table.connection, partial(look, table.dialect.read_newest))
    # It is not ours alone, as without autocommit.
    return in_transaction(table.connection, partial(look, None))


def _look(
    table: Table,
    request: Claim,
    window: int,
    one_by_one: bool,
    held: set[Any],
    first: str | None,
) -> Judged:
    """Within the transaction: judge the first candidates, and stamp those that may be claimed."""
    if first:
        with table.connection.cursor() as cursor:
            cursor.execute(first)
    _lock(table, may_write=first is None)
    place = table.dialect.placeholder(request.queue)
    found = rows(
        table.connection,
        f"SELECT {table.pk}, concurrency_key, concurrency_limit, key_order FROM {table.name} "
        f"WHERE {CLAIMABLE} AND queue = {place} ORDER BY priority, {table.pk} LIMIT %s",
        [request.queue, window + len(held)],
    )
    judged = _judge(table, request, [row for row in found if row[0] not in held])
    if set(judged.taken).difference(unlocked_keys(table, judged.taken)):
        every = [pk for pk, *_ in found]
        held.update(set(every).difference(unlocked_keys(table, every)))
        judged = _judge(table, request, [row for row in found if row[0] not in held])
    keys = sorted(judged.taken)
    chunks = [[key] for key in keys] if one_by_one else [keys] if keys else []
    judged.taken = [key for chunk in chunks for key in _stamped(table, request, chunk, one_by_one)]
    return judged


def _judge(table: Table, request: Claim, found: Sequence[Sequence[Any]]) -> Judged:
    rules = {
        pk: rule_in(table, request.queue, limit, order)
        for pk, key, limit, order in found
        if key is not None
    }
    names = sorted({key for _, key, _, _ in found if key is not None})
    in_order = sorted({key for pk, key, *_ in found if key is not None and rules[pk].is_fifo})
    claimed = count_claimed(table, names)
    judged = Judged(heads=find_heads(table, in_order))
    keyed_left = request.limit if request.keyed_limit is None else request.keyed_limit
    for pk, key, _, _ in found:
        if len(judged.taken) == request.limit or not keyed_left:
            break
        if key is None:
            judged.taken.append(pk)
            continue
        heads, rule = judged.heads.get(key), rules[pk]
        if heads and heads.dooms(pk, rule.order):
            judged.doomed[key] = heads.buried
        elif _may_start(pk, rule, claimed.get(key, 0), heads):
            judged.taken.append(pk)
            keyed_left -= 1
            claimed[key] = claimed.get(key, 0) + 1
        else:
            judged.blocked.add(key)
    return judged


def _may_start(pk: Any, rule: Rule, claimed: int, heads: Heads | None) -> bool:
    if claimed >= rule.limit:
        return False
    return not rule.is_fifo or heads is None or heads.first(rule.order) == pk


def _stamped(table: Table, request: Claim, keys: list[Any], may_fail: bool) -> list[Any]:
    among, these = table.dialect.among(table.pk, keys)
    # Of the queue, too: a person may just have moved some of them to another one.
    place = table.dialect.placeholder(request.queue)
    where = f"{CLAIMABLE_BY_KEY} AND queue = {place} AND {among}"
    sql = f"UPDATE {table.by_key} SET {request.sets} WHERE {where}"
    params = [*request.params, request.queue, *these]
    write = partial(changed_once, table.connection, sql, params)
    if not may_fail:
        return keys if write() else []
    try:
        with transaction.atomic(using=table.connection.alias):
            return keys if write() else []
    except IntegrityError as error:
        logger.debug("%s %s cannot be written: %s", table.label, keys, error)
        return []


def _lock(table: Table, *, may_write: bool) -> None:
    """Until the commit nobody else claims jobs with keys from this table."""
    connection = table.connection
    if not connection.features.has_select_for_update:
        return  # there is one writer
    name = connection.ops.quote_name(_queue_model()._meta.db_table)
    where, params = "WHERE job_table = %s AND name = %s", [_lock_of(table), LOCK]
    must_write = is_there = table.dialect.is_node
    if not must_write:
        look = f"SELECT {table.dialect.reads_past} FROM {name} {where} FOR UPDATE"
        found = rows(connection, look, params)
        is_there, must_write = bool(found), any(is_past for (is_past,) in found)
        if must_write and not may_write:
            raise _ReadsPast
    if must_write:  # who waits for it meanwhile has to begin once more
        sql = f"UPDATE {name} SET pause_reason = %s {where}"
        is_there = changed_once(connection, sql, [uuid4().hex, *params]) == 1
    if not is_there:
        raise _NoLock


def _make_lock(table: Table) -> None:
    manager = _queue_model()._default_manager.using(table.connection.alias)
    make = partial(manager.get_or_create, job_table=_lock_of(table), name=LOCK)
    retry(table.connection, make)


def _lock_of(table: Table) -> str:
    return f"{table.job_table} keys"


def _queue_model() -> Any:
    return apps.get_model("dbqueue", "Queue")


def _park(table: Table, queue: str, judged: Judged, held: set[Any]) -> list[Any]:
    """Put aside what is ready in a queue of the blocked keys; who is first in order stays ready."""
    names = sorted(judged.blocked)
    if not names:
        return []
    first = {heads.ready for heads in judged.heads.values()}
    found = rows(
        table.connection,
        f"SELECT {table.pk} FROM {table.name} WHERE {CLAIMABLE} "
        f"AND concurrency_key IN ({placeholders(names)}) "
        f"AND queue = {table.dialect.placeholder(queue)} LIMIT {CHUNK + len(held)}",
        [*names, queue],
    )
    ready = {pk for (pk,) in found} - held
    parked = sorted(ready - first) or sorted(ready)
    if parked:
        sql = f"UPDATE {table.by_key} SET status = {Status.DELAYED:d}, retry_at = NULL"
        sql = f"{sql} WHERE {CLAIMABLE_BY_KEY}"
        change_unlocked(table, sql, [], parked, held)
    # A claim that ended after our look has woken nothing of this.
    wake(table, names)
    return parked


def _bury_followers(table: Table, key: str, head: Any, held: set[Any]) -> None:
    """Those of a buried job, ready and parked: up to 500 of each."""
    reason = f"job {head} with the same key, which comes before it, is buried"
    sets, _ = freed(table, RetryDecision(Status.BURIED, 0, reason))
    for status in sorted(MOVES["bury"][0] - {Status.CLAIMED}):
        followers = rows(
            table.connection,
            f"SELECT {table.pk}, attempts, errors FROM {table.name} WHERE status = {status:d} "
            f"AND concurrency_key = %s AND {table.pk} > %s ORDER BY priority, {table.pk} "
            f"LIMIT {CHUNK}",
            [key, head],
        )
        for (attempts, _), alike in groupby(sorted(followers, key=_history), key=_history):
            same = sorted(alike, key=lambda row: row[0])
            new = entry(Bury(reason), attempt=attempts, owner=None)
            sql = f"UPDATE {table.by_key} SET {sets}, {RECORDED} WHERE +status = {status:d}"
            params = [appended(same[0][2], new), failure_of(new).fingerprint]
            keys = [pk for pk, _, _ in same]
            count = change_unlocked(table, sql, params, keys, held)
            if count:
                logger.warning("%s: jobs buried: %d; %s", table.label, count, reason)


def _history(row: Sequence[Any]) -> tuple[int, str]:
    """What a follower was through before, mostly nothing: those alike are written together."""
    _, attempts, errors = row
    return attempts if isinstance(attempts, int) else 0, repr(errors)
