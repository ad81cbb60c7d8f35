"""ready -> claimed."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from django.db import transaction
from django.db.utils import Error, IntegrityError

from ..dialects import Claim
from ..dialects.types import Floor, Row
from ..exceptions import shown
from ..guard import capture
from ..states import CLAIMABLE, CLAIMABLE_BY_KEY, HELD, Status
from . import keyed_claim, versions
from .claim_end import ONE_MORE, RetryDecision, claim_end, freed
from .errors import appended, entry
from .execute import changed, exact_rows, retry, rows
from .failures import RECORDED, failure_of
from .keys import HAS_KEY
from .reap import give_back
from .table import Table

logger = logging.getLogger("django_dbqueue")

MOST_REFUSED = 100  # rows in front of a queue that nobody can write
MAX_LIMIT = 2**31 - 1
URGENCY = attrgetter("priority", "claim_key")
# What a driver raises for a value that Python does not have, as a date in the year 10000.
UNREADABLE = (Error, ValueError, TypeError, ArithmeticError)


def claim(
    table: Table,
    queue: str,
    limit: int,
    owner: str,
    allowance: float = 0,
    floors: Sequence[Floor] | None = None,
    on_rows: Callable[[Table, Sequence[Row]], None] | None = None,
    keyed_limit: int | None = None,
) -> list[Any]:
    """Claim up to ``limit`` ready jobs of a queue, the most urgent and oldest first.

    The claim ends by itself at ``retry_at``: the job's time to run plus ``allowance`` seconds from
    now. ``floors`` leave out what is below them. With floors, or an empty list of them, what comes
    first is taken however many others claim, as with ``strict_order``. ``on_rows`` gets the rows as
    they are stored; ``keyed_limit`` is for jobs with concurrency keys. Raises
    ``TransactionManagementError`` inside ``atomic()``: a claim counts once it is committed. Jobs
    past ``expires_at`` come back with ``has_expired`` and are not to be run.
    """
    _check_limit(limit)
    _check_alone(table)
    request = _request(table, queue, int(limit), owner, allowance)
    request = request if floors is None else replace(request, floors=floors, in_order=True)
    request = replace(request, keyed_limit=keyed_limit) if table.takes_keys else request
    jobs: list[Any] = []
    for _ in range(versions.ROUNDS_MAX):
        claimed = list(_taken(table, request))
        if on_rows:
            on_rows(table, claimed)
        jobs = _built(table, request, claimed)
        if not (jobs and versions.has_versions(table)):
            break
        # What this code cannot run shall not keep back what is behind it.
        if jobs := versions.hold_back(table, owner, jobs):
            break
    return sorted(jobs, key=URGENCY)


def claim_of_several(
    table: Table,
    queues: Sequence[str],
    limit: int,
    owner: str,
    allowance: float = 0,
    on_rows: Callable[[Table, Sequence[Row]], None] | None = None,
) -> dict[str, list[Any]]:
    """Claim up to ``limit`` jobs in one claim: what the first queue has, then what the next ones
    have, as ``claim`` does of one; by queue, in their order.

    Not for tables whose jobs may have concurrency keys, or need some version of the code. Raises
    ``IntegrityError``, and claims nothing, where one of the rows cannot be written.
    """
    _check_alone(table)
    request = _request(table, queues[0], limit, owner, allowance)
    several = replace(request, others=queues[1:], columns=f"{request.columns}, queue")
    by_queue: dict[str, list[Row]] = {name: [] for name in queues}
    # MariaDB takes 'a ', which a hand may have written, for 'a'.
    asked = {name.rstrip(" "): name for name in queues}
    for *row, queue in _stamped(table, several):
        name = queue if queue in by_queue else asked.get(queue.rstrip(" "), queues[0])
        by_queue[name].append(tuple(row))
    found: dict[str, list[Any]] = {}
    for queue, of_one in by_queue.items():
        if of_one:
            jobs = _built(table, replace(request, queue=queue), of_one)
            found[queue] = sorted(jobs, key=URGENCY)
    if on_rows:
        on_rows(table, [row for of_one in by_queue.values() for row in of_one])
    return found


def claim_from(
    table: Table, queues: Iterable[str], limit: int, new_owner: Callable[[], str]
) -> list[Any]:
    """Claim up to ``limit`` jobs from the first queues that have some, each claim for itself."""
    _check_limit(limit)
    jobs: list[Any] = []
    for queue in queues:
        try:
            jobs += claim(table, queue, limit - len(jobs), new_owner())
        except Error as error:
            if not jobs:
                raise
            # What is claimed already has to be worked on.
            logger.warning("%s: claimed no more than %d jobs: %s", table.label, len(jobs), error)
            break
        if len(jobs) == limit:
            break
    return jobs


def _check_alone(table: Table) -> None:
    if table.connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            "claim() must not run inside atomic(): a job belongs to nobody before the commit "
            "(in a TestCase, django_dbqueue.testing.hidden_transaction() helps)"
        )


def _check_limit(limit: Any) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        raise ValueError(f"limit must be at least 1 and at most {MAX_LIMIT}, not {shown(limit)}")


def _taken(table: Table, request: Claim) -> Iterable[Row]:
    """As any claim does, unless jobs with concurrency keys are among the ready ones."""
    if not table.takes_keys:
        return _stamped(table, request)
    if not keyed_claim.has_ready_keys(table):
        return _stamped(table, replace(request, only=f" AND NOT ({HAS_KEY})"))
    keys = keyed_claim.stamp(table, request)
    if not keys:
        return []
    among, these = table.dialect.among(table.pk, keys)
    sql = f"SELECT {table.columns} FROM {table.by_key} WHERE {among} AND owner = %s"
    try:
        return exact_rows(table.connection, sql, [*these, request.owner])
    except UNREADABLE as error:
        _raise_trouble(table, error)
        return _one_by_one(table, request.owner, keys)


def _stamped(table: Table, request: Claim) -> Iterable[Row]:
    """The rows that a claim takes. Where one of them cannot even be fetched they are read one by
    one, for they are claimed all the same."""

    def run() -> list[Row]:
        with table.connection.cursor() as cursor:
            return table.dialect.claim(cursor, request)

    try:
        return retry(table.connection, run)
    except UNREADABLE as error:
        _raise_trouble(table, error)
        if isinstance(error, IntegrityError):
            if request.others:
                raise
            _pass_over(table, request)
        sql = f"SELECT {table.pk} FROM {table.name} WHERE {HELD} AND retry_at IS NOT NULL"
        taken = rows(table.connection, f"{sql} AND owner = %s", [request.owner])
        if not taken:
            raise
        return _one_by_one(table, request.owner, [key for (key,) in taken], request.columns)


def _pass_over(table: Table, request: Claim) -> None:
    """Claim job by job, without those that break a constraint, as one that was never validated:
    no statement can write such a row, not even to bury it."""
    candidates = rows(
        table.connection,
        f"SELECT {table.pk} FROM {table.name} WHERE {CLAIMABLE} AND queue = %s{request.only} "
        f"ORDER BY priority, {table.pk} LIMIT {request.limit + MOST_REFUSED}",
        [request.queue],
    )
    sql = f"UPDATE {table.by_key} SET {request.sets} "
    sql += f"WHERE {CLAIMABLE_BY_KEY} AND queue = %s AND {table.pk} = %s"
    left = request.limit
    for (key,) in candidates:
        try:
            left -= changed(table.connection, sql, [*request.params, request.queue, key])
        except IntegrityError as error:
            logger.debug("%s %s cannot be written: %s", table.label, key, error)
        if not left:
            break


def read_back(table: Table, queue: str, owner: str, keys: Iterable[Any]) -> list[Any]:
    """The jobs that an owner has claimed already."""
    request = _request(table, queue, 1, owner, 0)
    return sorted(_built(table, request, list(_one_by_one(table, owner, keys))), key=URGENCY)


def _one_by_one(table: Table, owner: str, keys: Iterable[Any], columns: str = "") -> Iterator[Row]:
    select = f"SELECT {columns or table.columns} FROM {table.by_key}"
    sql = f"{select} WHERE {table.pk} = %s AND owner = %s"
    for key in keys:
        try:
            yield from exact_rows(table.connection, sql, [key, owner])
        except UNREADABLE as error:
            _raise_trouble(table, error)
            _check_columns(table, owner, select)
            _bury_unread(table, owner, key, error)


def _check_columns(table: Table, owner: str, select: str) -> None:
    """Raise where no row can be read, as after a migration that took a column away. What is
    claimed already is given back: nothing is wrong with it."""
    try:
        exact_rows(table.connection, f"{select} WHERE 1 = 0", [])
    except Error as error:
        _raise_trouble(table, error)
        give_back(table, owner)
        raise


def _raise_trouble(table: Table, error: Exception) -> None:
    """Raise what is no fault of a row."""
    if isinstance(error, Error) and table.dialect.error_kind(error):
        raise error


def _built(table: Table, request: Claim, rows: Sequence[Row]) -> list[Any]:
    """The instances of the rows. One that cannot be built is buried: else it would be claimed
    again and again, and nothing behind it in its queue would ever run."""
    # Reading a value is a field's code, so anybody's.
    with capture():
        return table.build(rows, request.queue, request.owner)
    built: list[Any] = []
    for row in rows:
        with capture() as one:
            built += table.build([row], request.queue, request.owner)
        if one.error is not None:
            _bury_unread(table, request.owner, row[table.pk_position], one.error)
    return built


def _bury_unread(table: Table, owner: str, key: Any, error: Exception) -> None:
    """By the raw key, since there is no instance."""
    logger.error("%s %s is buried: its row cannot be read", table.label, key, exc_info=error)
    mine, params = f"{table.pk} = %s AND {HELD} AND owner = %s", [key, owner]
    sql = f"SELECT attempts, errors FROM {table.by_key} WHERE {mine}"
    for attempts, stored in rows(table.connection, sql, params):
        new = entry(error, attempt=attempts, owner=owner)
        sets, _ = freed(table, RetryDecision(Status.BURIED, 0, "buried: it cannot be read"))
        changed(
            table.connection,
            f"UPDATE {table.by_key} SET {sets}, {RECORDED} WHERE {mine}",
            [appended(stored, new), failure_of(new).fingerprint, *params],
        )


def _request(table: Table, queue: str, limit: int, owner: str, allowance: float) -> Claim:
    end, params = claim_end(table, allowance)
    sets = (
        f"status = {Status.CLAIMED:d}, owner = %s, attempts = {ONE_MORE}, "
        f"dequeued_time = {table.dialect.now}, retry_at = {end}"
    )
    if table.policy.dedup_until == "claim":
        sets += ", dedup_key = NULL"
    return Claim(
        table=table.name,
        pk=table.pk,
        columns=table.columns,
        queue=queue,
        limit=limit,
        owner=owner,
        sets=sets,
        params=[owner, *params],
        in_order=table.policy.strict_order,
    )
