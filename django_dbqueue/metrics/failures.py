"""The rows in which failures are added up by kind: which ones, and what becomes of old ones."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db import connections

from ..lifecycle.execute import retry
from ..lifecycle.execute import rows as rows_read
from ..lifecycle.failures import Failure
from ..lifecycle.table import Table, table_of
from ..models import FailureCount, FailureKind
from ..models.failure import COUNTS_MAX, FORGOTTEN, KINDS_MAX, MINUTES, OTHER
from ..models.minute import KEPT
from ..worker.served import queue_tables

PRUNED_ROWS_MAX = 1000  # at once
ASKED_AT_ONCE = 100  # kinds, whether there are jobs of them
# Of a failure whose kind nobody knows, or has room for.
UNTOLD = Failure(OTHER, "", "", "")
Place = tuple[str, str]  # queue, fingerprint


def start_of(minute: int) -> int:
    """Where the five minutes begin that hold a minute."""
    return minute // MINUTES * MINUTES


def rows_of(
    alias: str, job_table: str, queue: str, minute: int, counted: Mapping[Failure, int]
) -> list[tuple[Any, int]]:
    """The rows to add to, as querysets, and what; made where they are not there yet, and in the
    order in which everybody locks them."""
    if not counted:
        return []
    told = _kinds(alias, job_table, minute, list(counted))
    rows = FailureCount.objects.using(alias).filter(job_table=job_table, minute=start_of(minute))
    there: set[Place] = set(rows.values_list("queue", "fingerprint"))
    sums: Counter[Place] = Counter()
    for failure, number in counted.items():
        place = queue, failure.fingerprint if failure.fingerprint in told else OTHER
        has_room = place in there or len(there) < COUNTS_MAX
        place = place if has_room else (OTHER, OTHER)
        there.add(place)
        sums[place] += number
    _create(
        alias,
        FailureCount,
        [
            FailureCount(job_table=job_table, minute=start_of(minute), queue=q, fingerprint=f)
            for q, f in sorted(sums)
        ],
    )
    return [(rows.filter(queue=q, fingerprint=f), sums[q, f]) for q, f in sorted(sums)]


def _kinds(alias: str, job_table: str, minute: int, failures: Sequence[Failure]) -> set[str]:
    """Those of the fingerprints that have a row which says what they are; one is made where there
    is room."""
    rows = FailureKind.objects.using(alias).filter(job_table=job_table)
    wanted = {one.fingerprint: one for one in failures if one != UNTOLD}
    seen = dict(rows.filter(fingerprint__in=wanted).values_list("fingerprint", "last_seen"))
    late = sorted(name for name, last in seen.items() if last < minute)
    if late:
        rows.filter(fingerprint__in=late, last_seen__lt=minute).update(last_seen=minute)
    new = sorted(wanted.keys() - seen.keys())
    if new and rows.count() + len(new) > KINDS_MAX:
        forgotten = rows.filter(last_seen__lt=minute - FORGOTTEN).order_by("last_seen")
        _delete_unused(forgotten)
        if (missing := rows.count() + len(new) - KINDS_MAX) > 0:
            _delete(forgotten, missing)
        new = new[: max(0, KINDS_MAX - rows.count())]
    fresh = [
        FailureKind(
            job_table=job_table,
            fingerprint=one.fingerprint,
            exception=one.exception,
            place=one.place,
            words=one.words,
            first_seen=minute,
            last_seen=minute,
        )
        for one in map(wanted.__getitem__, new)
    ]
    _create(alias, FailureKind, fresh)
    return {*seen, *new}


def _create(alias: str, model: Any, fresh: list[Any]) -> None:
    """Outside the transaction that adds up: it then locks no gap between rows."""
    create = partial(model.objects.using(alias).bulk_create, ignore_conflicts=True)
    if fresh:
        retry(connections[alias], partial(create, fresh))


def prune(alias: str, minute: int) -> int:
    """Delete up to 1,000 counts that are older than is shown, and kinds of which there is no job
    any more; how many."""
    first = minute - KEPT
    old = FailureCount.objects.using(alias).filter(minute__lt=first).order_by("minute")
    gone = FailureKind.objects.using(alias).filter(last_seen__lt=first).order_by("last_seen")
    return _delete(old) + _delete_unused(gone)


def _delete_unused(kinds: Any) -> int:
    """But for those of which there are jobs: it is by them that these are told and found."""
    names: dict[str, list[str]] = defaultdict(list)
    for job_table, fingerprint in kinds.values_list("job_table", "fingerprint"):
        names[job_table].append(fingerprint)
    tables = {model._meta.db_table: model for model in queue_tables()}
    deleted = 0
    for job_table, found in names.items():
        model, used = tables.get(job_table), set[str]()
        if model is not None:
            used = _used(table_of(model, kinds.db), found)
        rows = kinds.model.objects.using(kinds.db).filter(job_table=job_table)
        deleted += _delete(rows.filter(fingerprint__in=set(found) - used))
    return deleted


def _used(table: Table, fingerprints: Sequence[str]) -> set[str]:
    """Those of which there is a job, each by a look at the index."""
    used = set()
    for start in range(0, len(fingerprints), ASKED_AT_ONCE):
        names = fingerprints[start : start + ASKED_AT_ONCE]
        one = f"CASE WHEN EXISTS (SELECT 1 FROM {table.name} WHERE failure = %s) THEN 1 ELSE 0 END"
        [found] = rows_read(table.connection, f"SELECT {', '.join([one] * len(names))}", names)
        used |= {name for name, is_used in zip(names, found, strict=True) if is_used}
    return used


def _delete(rows: Any, most: int = PRUNED_ROWS_MAX) -> int:
    keys = list(rows.values_list("pk", flat=True)[:most])
    return rows.model.objects.using(rows.db).filter(pk__in=keys).delete()[0] if keys else 0
