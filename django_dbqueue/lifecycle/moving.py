"""ready, delayed or buried -> the same state in another queue, as a person wants it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.utils import IntegrityError

from ..states import MOVES, Status
from .admission import as_many_as_fit
from .execute import changed, placeholders, rows
from .limiter import limiter_of
from .operator import CHUNK, Changed, Seen, by_state
from .table import UNBOUNDED, Table

# Dedup keys in one list: from 200 values on MariaDB and MySQL may read the whole table.
LOOKED_UP_MAX = 100


@dataclass
class Moved(Changed):
    """``skipped`` counts also the ``twins``, whose dedup key another job has in the queue that they
    were to be moved to, those for which that one has ``no_room``, and those that are ``barred`` by
    a constraint of the project's own."""

    twins: int = 0
    no_room: int = 0
    barred: int = 0

    def __add__(self, other: Changed) -> "Moved":
        both = super().__add__(other)
        twins = self.twins + getattr(other, "twins", 0)
        no_room = self.no_room + getattr(other, "no_room", 0)
        barred = self.barred + getattr(other, "barred", 0)
        return Moved(both.changed, both.skipped, twins, no_room, barred)

    def __str__(self) -> str:
        told = self.twins + self.no_room + self.barred
        said = str(Changed(self.changed, self.skipped - told))
        if self.twins:
            said += f"; {self.twins} skipped: a job with the same dedup key is there already"
        if self.no_room:
            said += f"; {self.no_room} skipped: the queue is full"
        if self.barred:
            said += f"; {self.barred} skipped: a constraint of the table forbids it"
        return said


def move(table: Table, seen: Iterable[Seen], queue: str) -> Changed:
    """Put jobs into another queue, or into their lanes of it; into one that is bounded no more than
    it has room for."""
    result: Changed = Moved()
    for lane, jobs in _by_lane(table, list(seen), queue).items():
        # Buried ones take no room.
        parked = [one for one in jobs if one[1] == Status.BURIED]
        waiting = [one for one in jobs if one[1] != Status.BURIED]
        moving = _Moving(table, lane)
        done = by_state(table, waiting, MOVES["move"][0], moving.write_with_room)
        done += by_state(table, parked, MOVES["move"][0], moving.write)
        result += Moved(done.changed, done.skipped, moving.twins, moving.no_room, moving.barred)
    return result


def _by_lane(table: Table, seen: Sequence[Seen], queue: str) -> dict[str, list[Seen]]:
    """Where each job goes that is not there yet."""
    limiter = limiter_of(table.model)
    if limiter is None or not limiter.has_lanes:
        return {queue: list(seen)}
    found: dict[str, list[Seen]] = {}
    names = [one.name for one in table.model._meta.concrete_fields if isinstance(one, UNBOUNDED)]
    instances = table.model._base_manager.using(table.connection.alias).defer(*names)
    for start in range(0, len(seen), CHUNK):
        chunk = {one[0]: one for one in seen[start : start + CHUNK]}
        jobs = list(instances.filter(pk__in=list(chunk)))
        was = {job.pk: job.queue for job in jobs}
        for job in jobs:
            job.queue = limiter.base_of(queue)
        lanes = limiter.strays(jobs, table.connection.alias)
        strays = {job.pk: lane for lane, some in lanes.items() for job in some}
        for job in jobs:
            lane = strays.get(job.pk, job.queue)
            if lane != was[job.pk]:
                found.setdefault(lane, []).append(chunk[table.db_key(job.pk)])
    return found


class _Moving:
    """One move; the unique index judges who is a twin, a look before it saves most of the tries."""

    def __init__(self, table: Table, queue: str) -> None:
        self.table, self.queue = table, queue
        self.twins = self.no_room = self.barred = 0

    def write_with_room(self, keys: Sequence[Any], condition: str, params: Sequence[Any]) -> int:
        free, named = self._without_twins(keys)

        def write(most: int) -> Moved:
            return self._write(free[:most], named, condition, params)

        fits, done = as_many_as_fit(self.table, self.queue, len(free), write)
        self.no_room += len(free) - fits
        return self._counted(done)

    def write(self, keys: Sequence[Any], condition: str, params: Sequence[Any]) -> int:
        return self._counted(self._write(*self._without_twins(keys), condition, params))

    def _counted(self, done: Moved) -> int:
        self.twins += done.twins
        self.barred += done.barred
        return done.changed

    def _write(
        self, keys: Sequence[Any], named: Mapping[Any, str], condition: str, params: Sequence[Any]
    ) -> Moved:
        if not keys:
            return Moved()
        connection = self.table.connection
        is_within = connection.in_atomic_block
        try:
            with transaction.atomic(connection.alias) if is_within else nullcontext():
                return Moved(
                    changed(
                        connection,
                        f"UPDATE {self.table.by_key} SET queue = %s "
                        f"WHERE {self.table.pk} IN ({placeholders(keys)}) AND {condition}",
                        [self.queue, *keys, *params],
                    )
                )
        except IntegrityError:
            if len(keys) == 1:
                # Either a twin came in meanwhile, or a constraint is the project's own.
                name = named.get(self.table.db_key(keys[0]))
                is_twin = name is not None and bool(self._taken([name]))
                return Moved(twins=1) if is_twin else Moved(barred=1)
            each = (self._write([key], named, condition, params) for key in keys)
            return sum(each, Moved())

    def _without_twins(self, keys: Sequence[Any]) -> tuple[list[Any], dict[Any, str]]:
        """The keys of the jobs that nothing is known against, and the dedup keys of those that have
        one, by what ``db_key`` makes of theirs; two that have the same would be twins there."""
        table = self.table
        sql = f"SELECT {table.pk}, dedup_key FROM {table.by_key} "
        sql += f"WHERE {table.pk} IN ({placeholders(keys)}) AND dedup_key IS NOT NULL"
        # As they are read they may be of another type: a UUID is text for MariaDB's drivers.
        named = {table.db_key(key): name for key, name in rows(table.connection, sql, list(keys))}
        taken = self._taken(sorted(set(named.values())))
        free = []
        for key in keys:
            name = named.get(table.db_key(key))
            if name is None or name not in taken:
                free.append(key)
                taken |= set() if name is None else {name}
        self.twins += len(keys) - len(free)
        return free, named

    def _taken(self, names: Sequence[str]) -> set[str]:
        found = set[str]()
        for start in range(0, len(names), LOOKED_UP_MAX):
            some = names[start : start + LOOKED_UP_MAX]
            sql = f"SELECT dedup_key FROM {self.table.name} WHERE queue = %s "
            sql += f"AND dedup_key IN ({placeholders(some)})"
            found |= {name for (name,) in rows(self.table.connection, sql, [self.queue, *some])}
        return found
