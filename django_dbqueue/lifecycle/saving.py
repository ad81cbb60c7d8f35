"""Writing one new job, by Django's ``save()`` or for a dedup key; a bounded queue needs room."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from django.db import transaction
from django.db.utils import Error

from ..dialects import ErrorKind
from ..exceptions import QueueFull
from . import enqueue
from .admission import admitted, check_places, place_of, wanted
from .execute import retry, rows
from .limits import is_bounded, limits_of
from .room import Room
from .side_rows import written_with
from .table import Table

T = TypeVar("T")


@contextmanager
def saving(job: Any) -> Iterator[None]:
    """Around Django's own ``save()`` of a new job. The transaction goes on in which it meets a full
    queue, which has written nothing; Django marks it as broken, as for any error in there."""
    try:
        with enqueue.announced(type(job), [job]):
            yield
    except QueueFull as full:
        if (
            full.alias
            and not job._meta.parents
            and transaction.get_connection(full.alias).in_atomic_block
        ):
            transaction.set_rollback(False, using=full.alias)
        raise


def insert(
    table: Table,
    job: Any,
    fields: Sequence[Any],
    returning: Sequence[Any],
    by_django: Callable[[], T],
) -> T | list[Any]:
    """Insert a prepared job; what Django's ``_do_insert`` gives back, the ``returning`` fields.

    ``QueueFull``, and nothing is written, where its queue stays full.
    """
    insert_it = partial(_insert, table, job, fields, by_django)
    write: Callable[[], Any]
    write = partial(written_with, table, insert_it, partial(_keyed, job, returning))
    if not is_bounded(table.model) or limits_of(table.model, job.queue).max_length is None:
        written = write()
    elif _may_be_at_once(table) and _insert_at_once(table, job, fields):
        return []
    else:
        written = admitted(table, wanted(table.model, [place_of(job)]), write)
    if not isinstance(written, _Key):
        return written  # type: ignore[no-any-return]
    # Not before the commit: until then it may have to be written once more.
    _set_key(table, job, written.value)
    return []  # nothing is left for Django to assign


@dataclass(frozen=True)
class _Key:
    """Of a row that was inserted without Django."""

    value: Any


def _keyed(job: Any, returning: Sequence[Any], written: Any) -> list[tuple[Any, Any]]:
    """The job with its key, which it is not given before the commit."""
    if isinstance(written, _Key):
        return [(written.value, job)]
    if job._is_pk_set():
        return [(job.pk, job)]
    values = dict(zip([field.name for field in returning], written[0], strict=False))
    return [(values[job._meta.pk.name], job)]


def _may_be_at_once(table: Table) -> bool:
    return table.is_plain and table.model.side_rows is None


class _Twin(Exception):
    """What room was made for is not written."""


def insert_new(table: Table, job: Any) -> bool:
    """``enqueue.insert_new``, with ``QueueFull`` like ``insert``."""
    places = wanted(table.model, [place_of(job)]) if is_bounded(table.model) else []
    if not places:
        return enqueue.insert_new(table, job)
    held = f"SELECT 1 FROM {table.name} WHERE queue = %s AND dedup_key = %s"
    if rows(table.connection, held, [job.queue, job.dedup_key]):
        return False  # nobody needs to make room, nor to wait for it

    def write() -> None:
        if not enqueue.write_new(table, job):
            raise _Twin

    with enqueue.announced(table.model, [job]):
        try:
            admitted(table, places, write)
        except _Twin:
            return False
    return True


def _insert(table: Table, job: Any, fields: Sequence[Any], by_django: Callable[[], T]) -> T | _Key:
    key = enqueue.insert(table, job, fields) if table.is_plain else None
    if key is not None:
        return _Key(key)
    return retry(table.connection, by_django)


def _insert_at_once(table: Table, job: Any, fields: Sequence[Any]) -> bool:
    """With as few trips to the database as it allows; False = nothing was written."""
    connection = table.connection
    is_alone = connection.get_autocommit()
    if is_alone and connection.execute_wrappers:
        return False  # they may count on Django's own transactions
    check_places(table, (), is_alone)
    limit = limits_of(table.model, job.queue).max_length
    assert limit is not None, "only bounded queues need room"
    taking = Room(table, job.queue, limit, is_alone).taking(1)
    try:
        key = enqueue.insert_after(table, job, fields, taking, is_alone)
    except Error as error:
        if is_alone and table.dialect.error_kind(error) is ErrorKind.AGAIN:
            return False
        raise
    if key is not None:
        _set_key(table, job, key)
    return key is not None


def _set_key(table: Table, job: Any, key: Any) -> None:
    setattr(job, table.model._meta.pk.attname, key)
    job.forget(job.expressions())
