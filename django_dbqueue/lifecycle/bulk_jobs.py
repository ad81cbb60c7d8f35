"""nothing -> ready or delayed, many instances at once, which get the keys that the database gives.

Django's own ``bulk_create`` prepares every column of every row; most are the same in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from ..states import Status
from .bulk import FIXED, is_simple
from .bulk_columns import ROWS_MAX, Column, NotOurs, check_all, column, insert
from .enqueue import CHECKS, prepare
from .keys import give_key
from .limiter import limiter_of, place_in_lane
from .limits import expiry, has_max_age
from .table import Table

# What the lifecycle writes into the attributes of every new job.
NEW = {
    **dict.fromkeys(("owner", "dequeued_time", "finished_at", "failed_at", "failure")),
    **dict.fromkeys(("attempts", "crashes", "losses"), 0),
}
WRITTEN = NEW.keys() | {"status", "errors"}
Attributes = dict[str, Any]


def prepare_jobs(table: Table, jobs: Sequence[Any]) -> None:
    """``prepare`` each, column by column where nothing of the project's happens meanwhile."""
    if {*map(type, jobs)} != {table.model} or not table.is_assigned:
        for job in jobs:
            prepare(job)
        return
    _check(table, jobs)
    for job in jobs if has_max_age(table.model) else ():
        if job.expires_at is None:
            job.expires_at = expiry(table.model, job.queue, job.retry_at)
    for job in jobs:
        values = vars(job)
        values.update(NEW)
        values["status"] = Status.READY if values["retry_at"] is None else Status.DELAYED
        values["errors"] = []


def _check(table: Table, jobs: Sequence[Any]) -> None:
    """Their values, and what is derived from these."""
    model = table.model
    for job in jobs if table.takes_keys else ():
        give_key(job)
    for name, check in (CHECKS | model.checked_columns).items():
        check_all(check, map(attrgetter(name), jobs))
    for job in jobs if limiter_of(model) is not None else ():
        place_in_lane(job)
    for name in ("retry_at", "expires_at"):
        moments = {id(one): one for one in map(attrgetter(name), jobs) if one is not None}
        for moment in moments.values():
            model._meta.get_field(name).get_prep_value(moment)


def unread(jobs: Sequence[Any]) -> list[tuple[str, list[Attributes]]]:
    """Of prepared jobs, by column, the attributes of those whose value the database works out."""
    found = []
    every: list[Attributes] = [vars(job) for job in jobs]
    for field in jobs[0]._meta.concrete_fields if jobs else ():
        if field.name in WRITTEN or field.primary_key:
            continue
        given = _given(every, field.attname)
        kinds = {kind for kind in set(map(type, given)) if hasattr(kind, "resolve_expression")}
        if kinds:
            these = [one for one, value in zip(every, given, strict=True) if type(value) in kinds]
            found.append((field.attname, these))
    return found


def _given(every: Sequence[Attributes], name: str) -> list[Any]:
    try:
        return list(map(itemgetter(name), every))
    except KeyError:  # it was left out when one of them was read
        return [one.get(name) for one in every]


def insert_jobs(table: Table, jobs: Sequence[Any], batch_size: int | None) -> bool:
    """Insert prepared jobs, all or none. False, and nothing is written, where only Django's
    ``bulk_create`` knows how."""
    if not jobs or not _is_ours(table, jobs) or (batch_size is not None and batch_size < 1):
        return False
    try:
        columns = list(_columns(table, jobs))
    except NotOurs:
        return False
    keys = insert(table, columns, len(jobs), batch_size or ROWS_MAX, has_keys=True)
    attribute = table.model._meta.pk.attname
    for job, key in zip(jobs, keys, strict=True):
        setattr(job, attribute, key)
        state = job._state
        state.adding, state.db = False, table.connection.alias
    return True


def _is_ours(table: Table, jobs: Sequence[Any]) -> bool:
    """Whether the database numbers them all, and fields write what they are given."""
    meta = table.model._meta
    if not (table.is_plain and meta.auto_field and is_simple(table.model)):
        return False
    key = attrgetter(meta.pk.attname)
    if any(one is not None for one in map(key, jobs)):
        return False
    if any(field.is_relation for field in meta.concrete_fields):
        for job in jobs:
            if job._state.fields_cache:
                job._prepare_related_fields_for_save(operation_name="bulk_create")
    return True


def _columns(table: Table, jobs: Sequence[Any]) -> Iterator[Column]:
    meta = table.model._meta
    for field in meta.concrete_fields:
        if field is meta.auto_field or field.name in NEW.keys() - FIXED.keys():
            continue
        if field.name in FIXED:
            yield Column(table.inserted(field, FIXED[field.name]))
        elif one := column(table, field, list(map(attrgetter(field.attname), jobs))):
            yield one
