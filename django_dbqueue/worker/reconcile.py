"""Claims that nobody knows of: the answer to a claim, or a commit before a failover, was lost."""

import logging
import time
from collections.abc import Callable
from typing import Any

from django.db.utils import Error

from .. import events
from ..dialects import ErrorKind
from ..lifecycle import reap
from ..lifecycle.table import Table

logger = logging.getLogger("django_dbqueue")

EVERY = 60.0  # seconds, where there were claims meanwhile
LOCKED = 10.0  # seconds until another look at a table whose rows are locked
SOON = 0.1  # seconds; what is in hand could not be told just now

# By owner and key, what a child knows that it has claimed; None = it moved too fast to tell.
InHand = Callable[[], "set[tuple[str, Any]] | None"]


class Reconciler:
    """Compares what is claimed under our prefix with what is in hand, and gives back the rest.

    For the claiming thread, between two claims: meanwhile nothing is added to what is in hand.
    """

    def __init__(self, owner_prefix: str, in_hand: InHand) -> None:
        self.owner_prefix = owner_prefix
        self.in_hand = in_hand
        # By database and label: when to look.
        self._due: dict[tuple[str, str], tuple[Table, float]] = {}

    def claimed(self, table: Table) -> None:
        """It is looked at in a while, if it is not to be already."""
        name = table.place
        if name not in self._due:
            self._due[name] = table, time.monotonic() + EVERY

    def look_later(self, table: Table) -> None:
        """Not as late as usual."""
        self._due[table.place] = table, time.monotonic() + LOCKED

    def reconnected(self, alias: str) -> None:
        for name, (table, _) in self._due.items():
            if name[0] == alias:
                self._due[name] = table, 0.0

    def turn(self) -> None:
        now = time.monotonic()
        for name, (table, due_at) in list(self._due.items()):
            if now >= due_at and (pause := self._look(table)):
                self._due[name] = table, time.monotonic() + pause
            elif now >= due_at:
                del self._due[name]

    def _look(self, table: Table) -> float:
        """Seconds until it is to be done again; 0 = after another claim."""
        known = self.in_hand()
        if known is None:
            return SOON
        try:
            found, given_back = reap.give_back_unknown(table, self.owner_prefix, known)
        except Error as error:
            if table.dialect.error_kind(error) is not ErrorKind.AGAIN:
                raise
            logger.debug("%s: its claims cannot be compared: %s", table.label, error)
            return LOCKED
        if given_back:
            logger.warning("%s: gave back %d claims of unknown jobs", table.label, len(given_back))
            events.reaped(table, given_back)
        return LOCKED if len(given_back) < found else 0.0
