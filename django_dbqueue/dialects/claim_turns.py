"""MariaDB and MySQL: claims that have met with others take turns.

A claim looks for its rows and then updates them. What others look for in between are the same ones,
and they get nothing. So a claimer that has met with others holds a named lock of the server
meanwhile. It is a help and no promise: a claim that does not get it soon goes on without, and so
does a small one, which is quicker than the lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from time import monotonic
from typing import NamedTuple

from django.db.backends.utils import CursorWrapper
from django.db.utils import Error

from .types import Claim

CALM = 20  # claims without a conflict until others are forgotten
LARGE = 50  # jobs, from which on a claim takes turns
TURN_SECONDS = 1  # that a claim waits for its turn; MySQL knows whole seconds only
WITHOUT_SECONDS = 60.0  # for which it is not asked for where it has not come

Place = tuple[str, str]


class Met(NamedTuple):
    """Claims from a place have met with others: how many without a conflict are missing until it is
    calm, and how many jobs the last one found."""

    calm: int
    found: int


class ClaimTurns:
    """Of the claims on one connection."""

    def __init__(self) -> None:
        self.contended: dict[Place, Met] = {}
        # By table, until when to do without; for ever where a proxy shares the sessions.
        self._without: dict[str, float] = {}
        self._are_shared = False

    def note(self, place: Place, found: int, *, conflict: bool) -> None:
        """A claim has found so many jobs, and met with others or not."""
        met = self.contended.pop(place, None)
        calm = CALM if conflict else met.calm - 1 if met else 0
        if calm > 0:
            self.contended[place] = Met(calm, found)

    def would_help(self, claim: Claim) -> bool:
        met = self.contended.get(claim.place)
        if met is None or min(met.found, claim.limit) < LARGE or self._are_shared:
            return False
        return monotonic() >= self._without.get(claim.table, 0.0)

    @contextmanager
    def turn(self, cursor: CursorWrapper, claim: Claim) -> Iterator[bool]:
        """Wait until no other claim from the table is under way; whether that is so."""
        name = _name_of_lock(cursor, claim.table)
        was_free, is_ours = self._asked(cursor, name)
        if not is_ours:
            self._without[claim.table] = monotonic() + WITHOUT_SECONDS
        try:
            yield is_ours
        finally:
            if is_ours:
                self._release(cursor, name)
            if not was_free and (met := self.contended.get(claim.place)):
                self.contended[claim.place] = met._replace(calm=CALM)

    def _asked(self, cursor: CursorWrapper, name: str) -> tuple[bool, bool]:
        """Whether nobody had it, and whether we have it now."""
        try:
            cursor.execute("SELECT IS_FREE_LOCK(%s), GET_LOCK(%s, %s)", [name, name, TURN_SECONDS])
            was_free, is_ours = cursor.fetchone()
        except Error:
            # Some nodes of a cluster refuse it, and a limit of the server's may end it. Where the
            # connection is lost, the claim itself will say so.
            return True, False
        return bool(was_free), bool(is_ours)

    def _release(self, cursor: CursorWrapper, name: str) -> None:
        try:
            cursor.execute("SELECT RELEASE_LOCK(%s)", [name])
            [is_released] = cursor.fetchone()
        except Error:
            # Else it would be held as long as the session lives.
            cursor.db.close()
        else:
            # A proxy may have given the session to somebody else meanwhile.
            self._are_shared = not is_released


def _name_of_lock(cursor: CursorWrapper, table: str) -> str:
    """Locks are the server's, not the database's, and have names of at most 64 characters."""
    where = repr((cursor.db.settings_dict["NAME"], table))
    return f"dbqueue {sha1(where.encode(), usedforsecurity=False).hexdigest()}"
