"""Claims that nobody knows of: the answer to a claim, or a commit before a failover, was lost."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from django.db.utils import Error

from .. import events
from ..dialects import ErrorKind
from ..lifecycle import holder, reap
from ..lifecycle.table import Table
from .session import LOCKED_SECONDS

logger = logging.getLogger("django_dbqueue")

COMPARE_SECONDS = 60.0  # between two comparisons, where there were claims meanwhile
IN_HAND_RETRY_SECONDS = 0.1  # what is in hand could not be told just now
# Until what was locked is given back again: before the end of its claim, at which it is charged.
PUT_OFF_SECONDS = 1.0

# By owner and key, what a child knows that it has claimed; None = it moved too fast to tell.
InHand = Callable[[], "set[tuple[str, Any]] | None"]


def ails_all(table: Table, error: Error) -> bool:
    """Whether it is the trouble of a whole database, and not of one table of it, or of a row."""
    kind = table.dialect.error_kind(error)
    return kind is not None and (table.dialect.one_writer or kind is not ErrorKind.AGAIN)


class Reconciler:
    """Compares what is claimed under our prefix with what is in hand, and gives back the rest.

    For the claiming thread, between two claims: meanwhile nothing is added to what is in hand.
    """

    def __init__(self, owner_prefix: str, in_hand: InHand) -> None:
        self.owner_prefix = owner_prefix
        self.in_hand = in_hand
        # Claims without an answer: they may have taken jobs.
        self.unsure: list[tuple[Table, str]] = []
        # By database and label: all tables from which it has claimed, and when to compare.
        self._claimed_from: dict[tuple[str, str], Table] = {}
        self._due: dict[tuple[str, str], tuple[Table, float]] = {}
        # Tables of which something waits to be given back until a lock has ended.
        self.put_off: set[tuple[str, str]] = set()

    def claiming(self, table: Table, owner: str) -> None:
        """Unsure until its answer is there; and its table is compared in a while."""
        self.unsure.append((table, owner))
        self._claimed_from[table.place] = table
        if table.place not in self._due:
            self._due[table.place] = table, time.monotonic() + COMPARE_SECONDS

    def reconnected(self, alias: str) -> None:
        """Another server may answer now, which is minutes behind."""
        for place, table in self._claimed_from.items():
            if place[0] == alias:
                self._due[place] = table, 0.0

    def settle(self) -> None:
        """Give back what claims took whose answer was lost."""
        while self.unsure:
            table, owner = self.unsure[0]
            try:
                events.reaped(table, reap.give_back(table, owner))
            except Error as error:
                self._put_off(table, error)
            self.unsure.pop(0)

    def release(self, table: Table, owner: str, keys: Sequence[Any], delay: float) -> int:
        """Give back what has not started; how many jobs: 0 = later, as what nobody has in hand."""
        if table.place in self.put_off:
            return 0  # each might wait for the lock of a whole table
        try:
            holder.release(table, owner, keys, delay)
        except Error as error:
            self._put_off(table, error)
            return 0
        return len(keys)

    def _put_off(self, table: Table, error: Error) -> None:
        """What is locked, or of a table that is gone, keeps nothing else waiting."""
        if ails_all(table, error):
            raise error
        logger.debug("%s: what is to be given back waits: %s", table.label, error)
        pause = LOCKED_SECONDS
        if table.dialect.error_kind(error) is ErrorKind.AGAIN:
            self.put_off.add(table.place)
            pause = PUT_OFF_SECONDS
        self._due[table.place] = table, time.monotonic() + pause

    def turn(self) -> None:
        """Compare the tables that are due."""
        now = time.monotonic()
        for place, (table, due_at) in list(self._due.items()):
            if now >= due_at and (pause := self._compare(table)):
                self._due[place] = table, time.monotonic() + pause
            elif now >= due_at:
                del self._due[place]
                self.put_off.discard(place)

    def _compare(self, table: Table) -> float:
        """Seconds until it is to be done again; 0 = after another claim."""
        known = self.in_hand()
        if known is None:
            return IN_HAND_RETRY_SECONDS
        try:
            found, given_back = reap.give_back_unknown(table, self.owner_prefix, known)
        except Error as error:
            kind = table.dialect.error_kind(error)
            if kind not in {None, ErrorKind.AGAIN}:
                raise
            if kind is None:  # it is gone, and with it what waited for its locks
                self.put_off.discard(table.place)
            logger.debug("%s: its claims cannot be compared: %s", table.label, error)
            return LOCKED_SECONDS
        if given_back:
            logger.warning("%s: gave back %d claims of unknown jobs", table.label, len(given_back))
            events.reaped(table, given_back)
        locked_pause = PUT_OFF_SECONDS if table.place in self.put_off else LOCKED_SECONDS
        return locked_pause if len(given_back) < found else 0.0
