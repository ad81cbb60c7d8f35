"""Enqueueing into bounded queues: with room it is written, else the queue's policy decides."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from django.db import transaction
from django.db.transaction import TransactionManagementError
from django.db.utils import Error

from ..dialects import ErrorKind
from ..exceptions import QueueFull
from . import drop
from .execute import in_transaction
from .limits import is_bounded, limits_of
from .queue_options import named_queues
from .room import Room
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
    check_places(table, places, is_alone)
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


def is_blocked(table: Table, place: Wanted) -> bool:
    """Whether another transaction keeps the room of a queue, for which ``admitted`` would wait. If
    not, nobody takes it from the open transaction."""
    return not _room(table, place, is_alone=False).lock_at_once(place.count)


def make_rooms(table: Table) -> None:
    """Keep the rooms of the bounded queues that ``QUEUES`` names, before somebody's transaction
    makes one that goes on."""
    for queue in named_queues(table.model):
        limit = limits_of(table.model, queue).max_length
        if limit is not None:
            room = Room(table, queue, limit, is_alone=True)
            in_transaction(table.connection, room.make)


def as_many_as_fit(
    table: Table, queue: str, count: int, write: Callable[[int], T]
) -> tuple[int, T]:
    """For how many of so many jobs, which are moved into a queue, it has room, and what ``write``
    gives back, called with that number in one transaction. Nobody waits, and nothing is dropped."""
    limit = limits_of(table.model, queue).max_length if is_bounded(table.model) else None
    if limit is None:
        return count, write(count)
    is_alone = table.connection.get_autocommit()
    check_places(table, (), is_alone)

    def work() -> tuple[int, T]:
        room, fits = Room(table, queue, limit, is_alone), min(count, limit)
        if fits and not room.take(fits):
            fits -= room.find(fits, in_part=True)
        return fits, write(fits)

    return in_transaction(table.connection, work)


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


def check_places(table: Table, places: Sequence[Wanted], is_alone: bool) -> None:
    """Refuse what can never be done."""
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
