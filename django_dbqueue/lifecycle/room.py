"""How many more jobs a bounded queue may take, exact among transactions that are not committed.

The room that is left is handed out in stripes, rows of a table of ours. Each INSERT takes from one
stripe, in its own transaction: a rollback gives it back, a commit uses it up. Jobs that have ended
are only noticed by counting, once a stripe has run out.
"""

import random
import threading
import time
from collections.abc import Collection
from typing import Any

from django.db.models.constants import OnConflict

from ..states import CLAIMABLE, HELD, PROMOTABLE
from .execute import changed_once, placeholders, rows
from .keys import HAS_KEY, PARKED
from .table import Table

ROOMS = "dbqueue_queueroom"
JOBS_A_STRIPE = 50  # at the least; so a small queue has one stripe
STRIPES_MAX = 64
SHARE_MIN = 32  # jobs that a stripe is handed room for, if there is as much
FRESH = 60  # seconds after which room that was handed out counts no more: somebody may have meddled
UNCLEAR_MAX = (
    0.2  # seconds in which others may end the transactions that hold the room that is left
)
LOOK_AGAIN = 0.01  # seconds
QUICKLY_COUNTED = 5000  # jobs
PAUSES = 20  # so many times what a count took, a longer queue that was full counts as full

_nap = threading.Event()
# By database, table and queue: until when, by the monotonic clock, it counts as full.
_full_until: dict[tuple[str, str, str], float] = {}


class Room:
    """That of one queue, for one enqueueing.

    A transaction waits for stripe 0 or, while it has none, for the one that it begins with; any
    others it takes only where they are free. So no two transactions wait for each other.
    """

    def __init__(self, table: Table, queue: str, max_length: int, is_alone: bool) -> None:
        """``is_alone``: its transaction has nothing else to do."""
        self.table, self.queue, self.max_length = table, queue, max_length
        self.stripes = max(1, min(STRIPES_MAX, max_length // JOBS_A_STRIPE))
        self.key = (table.job_table, queue)
        self.homes = {} if is_alone else _homes(table)
        # A transaction that counts holds stripe 0 to its end.
        other = random.randrange(1, self.stripes) if self.stripes > 1 else 0
        self.home = self.homes.setdefault(self.key, other)

    def taking(self, count: int) -> tuple[str, list[Any]]:
        """The statement that takes room from one stripe, if it has as much."""
        having, params = self._having(count)
        return f"UPDATE {ROOMS} SET room = room - %s WHERE {having}", [count, *params]

    def _having(self, count: int) -> tuple[str, list[Any]]:
        """The condition of a stripe that has so much room, and its parameters."""
        is_fresh = f"counted_at > {self.table.dialect.now_plus(f'-{FRESH}')}"
        sql = "job_table = %s AND queue = %s "
        sql += f"AND stripe = %s AND room >= %s AND max_length = %s AND {is_fresh}"
        return sql, [*self.key, self.home, count, self.max_length]

    def take(self, count: int) -> bool:
        """From one stripe; False = look at all of the queue."""
        return changed_once(self.table.connection, *self.taking(count)) == 1

    def make(self) -> None:
        """Its first stripe, without any room, unless it is there."""
        sql = f"SELECT 1 FROM {ROOMS} WHERE job_table = %s AND queue = %s AND stripe = 0"
        if not rows(self.table.connection, sql, self.key):
            self._add([0])

    def lock_at_once(self, count: int) -> bool:
        """Lock the stripes that ``take`` and ``find`` would wait for; False = somebody has one.

        One that is only now made, in a transaction that goes on, is waited for all the same."""
        if not self.table.connection.features.has_select_for_update_skip_locked:
            return True
        having, params = self._having(count)
        sql = f"SELECT 1 FROM {ROOMS} WHERE {having}"
        return self._is_mine(self.home) and (
            bool(rows(self.table.connection, sql, params)) or self._is_mine(0)
        )

    def _is_mine(self, stripe: int) -> bool:
        """Or is not there yet."""
        sql = f"SELECT room FROM {ROOMS} WHERE job_table = %s AND queue = %s AND stripe = %s"
        place, connection = [*self.key, stripe], self.table.connection
        skipping = f"{sql} {self._locking(skip_locked=True)}"
        return bool(rows(connection, skipping, place)) or not rows(connection, sql, place)

    def find(self, count: int, *, in_part: bool = False) -> int:
        """Count the queue, take room and hand out some; for how many there is none: 0 = taken. Room
        for a part of them is only gathered from others where it is of use (``in_part``)."""
        place = (self.table.connection.alias, *self.key)
        if time.monotonic() < _full_until.get(place, 0):
            return count
        self._lock_counters_out()
        mine = self._lock_free([self.home])
        left, most = self._left(mine)
        give_up = time.monotonic() + UNCLEAR_MAX
        while left < (aim := min(count, most) if in_part else count) and 0 < aim <= most:
            # The rest is in other stripes, or held by transactions that may not need it.
            mine = self._lock_free(range(STRIPES_MAX))
            left, most = self._left(mine)
            if left >= aim or time.monotonic() > give_up:
                break
            _nap.wait(LOOK_AGAIN)
        if left >= count:
            self._hand_out(mine, left - count)
            return 0
        if left > 0:
            self._hand_out(mine, 0)  # who drops jobs for the rest of it takes all that is left
        return min(count, count - left)

    def _lock_counters_out(self) -> None:
        locking = self._locking(skip_locked=False)
        sql = f"SELECT room FROM {ROOMS} WHERE job_table = %s AND queue = %s AND stripe = 0"
        while not rows(self.table.connection, f"{sql} {locking}", self.key):
            self._add([0])

    def _lock_free(self, stripes: Collection[int]) -> set[int]:
        """Those of the stripes that no other transaction holds are ours; stripe 0 is already."""
        locking = self._locking(skip_locked=True)
        sql = f"SELECT stripe FROM {ROOMS} WHERE job_table = %s AND queue = %s"
        sql += f" AND stripe IN ({placeholders([*stripes])}) ORDER BY stripe {locking}"
        found = rows(self.table.connection, sql, [*self.key, *stripes])
        mine = {0} | {stripe for (stripe,) in found}
        if self.home not in mine:
            # To wait for it from now on could close a circle.
            self.home = self.homes[self.key] = 0
        return mine

    def _left(self, mine: Collection[int]) -> tuple[int, int]:
        """Room that is nobody's, and what there would be without that of others.

        First what others could take at the most, then the jobs: what is committed in between is
        counted twice, and nothing is left out. Nobody else hands out room meanwhile.
        """
        sql = f"SELECT stripe, room FROM {ROOMS} WHERE job_table = %s AND queue = %s"
        found = dict(rows(self.table.connection, sql, self.key))
        if missing := [one for one in range(self.stripes) if one not in found]:
            self._add(missing)
        others = sum(room for stripe, room in found.items() if stripe not in mine)
        began = time.monotonic()
        length = length_of(self.table, self.queue, self.max_length + 1)
        most = self.max_length - length
        if most <= 0 and length > QUICKLY_COUNTED:
            now = time.monotonic()
            _full_until[self.table.connection.alias, *self.key] = now + PAUSES * (now - began)
        return most - others, most

    def _hand_out(self, mine: Collection[int], spare: int) -> None:
        share = min(spare, max(SHARE_MIN, spare // self.stripes))
        sql = f"UPDATE {ROOMS} SET room = CASE WHEN stripe = %s THEN %s ELSE 0 END, "
        sql += f"max_length = %s, counted_at = {self.table.dialect.now} WHERE job_table = %s "
        sql += f"AND queue = %s AND stripe IN ({placeholders([*mine])})"
        params = [self.home, share, self.max_length, *self.key, *sorted(mine)]
        changed_once(self.table.connection, sql, params)

    def _add(self, stripes: Collection[int]) -> None:
        # What exists already is written, too: else it is locked in a way in which others lock it,
        # too, and all of them would wait for each other.
        ops, names = self.table.connection.ops, ["job_table", "queue", "stripe"]
        one = f"(%s, %s, %s, 0, 0, {self.table.dialect.now})"
        sql = f"{ops.insert_statement(on_conflict=OnConflict.UPDATE)} {ROOMS} ({', '.join(names)}, "
        sql += f"room, max_length, counted_at) VALUES {', '.join([one] * len(stripes))} "
        sql += ops.on_conflict_suffix_sql((), OnConflict.UPDATE, ["stripe"], names)
        values = [value for stripe in stripes for value in (*self.key, stripe)]
        changed_once(self.table.connection, sql, values)

    def _locking(self, skip_locked: bool) -> str:
        """SQLite's transaction holds the whole database."""
        features, ops = self.table.connection.features, self.table.connection.ops
        if not features.has_select_for_update:
            return ""
        can_skip = features.has_select_for_update_skip_locked
        return ops.for_update_sql(skip_locked=skip_locked and can_skip)


def length_of(table: Table, queue: str, most: int) -> int:
    """How many jobs of a queue have not ended; of each state at most ``most`` are counted.

    In one statement: a job that changes its state between two would be missed by both.
    """
    # What an index of the database's holds that are partial; without such it would need the rows.
    indexed = (
        " AND retry_at IS NOT NULL" if table.connection.features.supports_partial_indexes else ""
    )
    states = {CLAIMABLE: "", HELD: indexed, PROMOTABLE: indexed}
    if indexed and table.takes_keys:
        states[PARKED] = f" AND {HAS_KEY}"
    counts = [
        f"(SELECT COUNT(*) FROM (SELECT 1 FROM {table.name} WHERE {state} AND queue = %s{more} "
        f"LIMIT %s) AS counted)"
        for state, more in states.items()
    ]
    [(length,)] = rows(
        table.connection, f"SELECT {' + '.join(counts)}", [queue, most] * len(counts)
    )
    return int(length)


def _homes(table: Table) -> dict[tuple[str, str], int]:
    """By table and queue, the stripe that the open transaction keeps to."""
    connection = table.connection
    outermost = connection.atomic_blocks[0] if connection.atomic_blocks else None
    known = vars(connection).get("dbqueue_homes")
    if known is None or known[0] is not outermost:
        known = vars(connection)["dbqueue_homes"] = outermost, {}
    homes: dict[tuple[str, str], int] = known[1]
    return homes
