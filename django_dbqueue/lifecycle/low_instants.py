"""From which instant on rows that move by time are looked for.

They are found in the order of an instant: when a job is due, when it ended. Those that have moved
leave dead entries at the head of that index, and while somebody holds a snapshot open each look
walks over all of them. It is quick where it begins at the instant up to which the last one has seen
everything. What comes below it meanwhile (committed late, locked a moment ago) waits for a whole
look.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from .execute import rows
from .low_water import SHARE, is_slow
from .table import Table

CHUNK = 500  # rows
LOOKS = 3  # a chunk may take as long as so many looks at one row
LONGEST = 10.0  # seconds between two whole looks
LONGEST_LEAVING = 60.0  # for rows that only leave the table
SLOW_LOOKS = 3  # one after the other; fewer may be the machine's business
# Seconds that a statement's commit may follow on its clock and be seen by the next look.
LATE = 2.0
# An instant as exact text, on every database and in every zone.
TEXT = "CAST({} AS CHAR(40))"


class LowInstant:
    """Of rows of one kind in one table; in force only while whole looks are slow."""

    def __init__(self, longest: float | None = None) -> None:
        """``longest``: seconds between two whole looks, at most."""
        self._longest = longest
        self._floor: str | None = None
        self._slow_looks = 0  # that were whole, one after the other
        self._whole_at = 0.0

    @property
    def in_force(self) -> bool:
        """Whether looks begin at the floor."""
        return self._slow_looks >= SLOW_LOOKS

    def above(self, column: str) -> tuple[str, list[str]]:
        """A condition to look by, with its parameters; empty where all is to be seen."""
        if not self.in_force or self._floor is None or time.monotonic() >= self._whole_at:
            return "", []
        return f" AND {column} >= %s", [self._floor]

    def moment(self, table: Table, seconds: float = 0) -> str | None:
        """A bit more than so many seconds ago, where that may become the floor; asked before a
        look."""
        if not self.in_force:
            return None
        ago = TEXT.format(table.dialect.now_plus("-(%s)"))
        [(found,)] = rows(table.connection, f"SELECT {ago}", [seconds + LATE])
        return str(found)

    def looked(self, table: Table, seconds: float, count: int) -> None:
        """A whole look, at so many kinds of rows, took so long. What it has found below the floor
        is for the next look, so there is none until somebody has seen everything."""
        self._slow_looks = self._slow_looks + 1 if is_slow(table, seconds, count) else 0
        self._whole_at = time.monotonic() + min(self._longest or LONGEST, SHARE * seconds)
        self._floor = None

    def seen_up_to(self, instant: str | None) -> None:
        """Nothing is left below, as far as the last look could see."""
        if self.in_force and instant is not None:
            self._floor = instant

    def forget(self) -> None:
        """What is below the floor may have changed: the next look is a whole one."""
        self._floor = None

    def first(
        self, table: Table, name: str, column: str, seconds: float, condition: str = ""
    ) -> list[Any]:
        """The keys of up to 500 rows whose instant was at least so many seconds ago, the oldest
        first; ``name`` is the quoted name of the table or of its archive."""
        kind = f"{condition} AND " if condition else ""
        moment = self.moment(table, seconds)
        above, floor = self.above(column)
        # By another name: else the order would be that of the text.
        instant = f", {TEXT.format(column)} AS instant, {column} < %s" if moment else ""
        began = time.monotonic()
        found = rows(
            table.connection,
            f"SELECT {table.pk}{instant} FROM {name} WHERE {kind}"
            f"{table.dialect.is_past(column, '%s')}{above} ORDER BY {column} LIMIT {CHUNK}",
            [*([moment] if moment else []), seconds, *floor],
        )
        if not floor:
            self.looked(table, time.monotonic() - began, LOOKS)
        if moment and len(found) == CHUNK:
            _, last, is_before = found[-1]
            # What is committed late may come below the last one, however many there are.
            moment = last if is_before else moment
        self.seen_up_to(moment)
        return [key for key, *_ in found]


@dataclass
class LowInstants:
    """Those of one queue table and its archive."""

    delayed: LowInstant = field(default_factory=LowInstant)
    held: LowInstant = field(default_factory=LowInstant)
    finished: LowInstant = field(default_factory=lambda: LowInstant(LONGEST_LEAVING))
    archived: LowInstant = field(default_factory=lambda: LowInstant(LONGEST_LEAVING))

    @property
    def are_in_force(self) -> bool:
        """Whether looks at what moves by time begin at a floor."""
        return self.delayed.in_force or self.held.in_force

    def forget(self) -> None:
        for low in (self.delayed, self.held, self.finished, self.archived):
            low.forget()
