"""Enqueueing into bounded queues: with room it is written, else the queue's policy decides."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from django.db import transaction
from django.db.transaction import TransactionManagementError
from django.db.utils import Error

from ..dialects import ErrorKind
from ..exceptions import QueueFull
from . import drop, enqueue
from .execute import in_transaction, retry, rows
from .limits import is_bounded, limits_of
from .room import Room
from .side_rows import written_with
from .table import Table

T = TypeVar("T")
place_of = attrgetter("queue", "priority")  # of a job
LOOK_EVERY = 0.02, 0.2  # seconds between looks at a full queue, at first and in the end

_nap = threading.Event()


@dataclass(frozen=True)
class Wanted:
    """Places in one bounded queue."""

    queue: str
    count: int
    priority: int  # of the least urgent of them
    max_length: int
    when_full: str
    full_wait: float


def wanted(model: type[Any], jobs: Iterable[tuple[str, int]]) -> list[Wanted]:
    """What jobs, as (queue, priority), need; in the order of names, in which all ask for it."""
    counts: Counter[str] = Counter()
    least: dict[str, int] = {}
    for queue, priority in jobs:
        counts[queue] += 1
        least[queue] = max(priority, least.get(queue, 0))
    found = []
    for queue, count in sorted(counts.items()):
        limits = limits_of(model, queue)
        if limits.max_length is not None:
            asked = limits.max_length, limits.when_full, limits.full_wait
            found.append(Wanted(queue, count, least[queue], *asked))
    return found


def admit(table: Table, jobs: Callable[[], Iterable[tuple[str, int]]], write: Callable[[], T]) -> T:
    """``admitted`` for jobs as (queue, priority), for which only bounded tables ask."""
    if not is_bounded(table.model):
        return write()
    return admitted(table, wanted(table.model, jobs()), write)


def admitted(table: Table, places: Sequence[Wanted], write: Callable[[], T]) -> T:
    """What ``write`` gives back, called in a transaction in which there is room for all.

    ``QueueFull``, and nothing is written, where a queue stays full. A transaction of the caller's
    does not wait: it would keep others from their room. Else it waits as long as the most patient
    queue says, if all that are full are to be waited for.
    """
    if not places:
        return write()
    is_alone = table.connection.get_autocommit()
    _check(table, places, is_alone)
    give_up = time.monotonic() + (max(one.full_wait for one in places) if is_alone else 0)
    pauses = _pauses()
    while True:
        try:
            return _tried(table, places, write, is_alone)
        except NoRoom as full:
            is_over = time.monotonic() >= give_up
            if is_over or full.place.when_full != "wait":
                raise _queue_full(table, full.words(table)) from None
        _nap.wait(min(next(pauses), max(0.0, give_up - time.monotonic())))


def as_many_as_fit(
    table: Table, queue: str, count: int, write: Callable[[int], T]
) -> tuple[int, T]:
    """For how many of so many jobs, which are moved into a queue, it has room, and what ``write``
    gives back, called with that number in one transaction. Nobody waits, and nothing is dropped."""
    limit = limits_of(table.model, queue).max_length if is_bounded(table.model) else None
    if limit is None:
        return count, write(count)
    is_alone = table.connection.get_autocommit()
    _check(table, (), is_alone)

    def work() -> tuple[int, T]:
        room, fits = Room(table, queue, limit, is_alone), min(count, limit)
        if fits and not room.take(fits):
            fits -= room.find(fits)
        return fits, write(fits)

    return in_transaction(table.connection, work)


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
    _check(table, (), is_alone)
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


class NoRoom(QueueFull):
    """So far."""

    def __init__(self, place: Wanted) -> None:
        super().__init__()
        self.place = place

    def words(self, table: Table) -> str:
        one = self.place
        waited = f" for {one.full_wait:g} s" if one.when_full == "wait" else ""
        jobs = "a job" if one.count == 1 else f"{one.count:,} jobs"
        return (
            f"queue {one.queue} of {table.label} has no room for {jobs} more{waited}: it may hold "
            f"{one.max_length:,} (max_length) that have not ended; nothing was written"
        )


def _queue_full(table: Table, words: str) -> QueueFull:
    error = QueueFull(words)
    error.alias = table.connection.alias
    return error


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


def _check(table: Table, places: Sequence[Wanted], is_alone: bool) -> None:
    for one in places:
        if one.count > one.max_length:
            raise _queue_full(
                table,
                f"queue {one.queue} of {table.label} never has room for {one.count:,} jobs at "
                f"once: its max_length is {one.max_length:,}; nothing was written",
            )
    if not is_alone and not table.dialect.sees_commits:
        raise TransactionManagementError(
            f"{table.label} has a max_length: inside atomic() its jobs can only be counted in READ "
            "COMMITTED, Django's default isolation level"
        )


def _tried(table: Table, places: Sequence[Wanted], write: Callable[[], T], is_alone: bool) -> T:
    """Once, and again where the database asks for it: what it refuses it has rolled back."""
    connection = table.connection
    if (
        not is_alone
        and len(places) == 1
        and _room(table, places[0], is_alone=False).take(places[0].count)
    ):
        return write()  # without a savepoint
    pauses = table.dialect.retry_pauses()
    while True:
        try:
            with transaction.atomic(using=connection.alias):
                for one in places:
                    _make_room(table, one, is_alone=is_alone)
                return write()
        except Error as error:
            is_again = table.dialect.error_kind(error) is ErrorKind.AGAIN
            pause = next(pauses, None)
            if not is_alone or not is_again or pause is None:
                raise
            _nap.wait(pause)


def _make_room(table: Table, one: Wanted, is_alone: bool) -> None:
    room = _room(table, one, is_alone=is_alone)
    if room.take(one.count):
        return
    missing = room.find(one.count)
    if not missing:
        return
    drops = one.when_full == "drop_oldest"
    if not (drops and drop.drop(table, one.queue, missing, one.priority)):
        raise NoRoom(one)


def _room(table: Table, one: Wanted, *, is_alone: bool) -> Room:
    return Room(table, one.queue, one.max_length, is_alone)


def _pauses() -> Iterator[float]:
    pause, longest = LOOK_EVERY
    while True:
        yield pause
        pause = min(pause * 1.5, longest)
