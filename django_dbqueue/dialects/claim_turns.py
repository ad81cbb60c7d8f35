"""MariaDB and MySQL: claims that have met with others take turns.

A claim looks for its rows and then updates them. Who looks in between finds the same ones, and gets
nothing. So a claimer that has met with others holds a named lock of the server meanwhile. It is a
help and no promise: a claim whose turn does not come soon goes on without, and so does a small one,
which is quicker than the lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha1
from time import monotonic

from django.db.backends.utils import CursorWrapper
from django.db.utils import Error

from .types import Claim

CALM = 20  # claims without a conflict until no turns are taken any more
LARGE = 50  # jobs, from which on a claim takes turns
TURN_SECONDS = 1  # that a claim waits for its turn; MySQL knows whole seconds only
WITHOUT_SECONDS = 60.0  # for which no more is waited where it has not come

Place = tuple[str, str]


class ClaimTurns:
    """Of the claims on one connection."""

    def __init__(self) -> None:
        # By place, how many claims without a conflict are missing until it is calm.
        self.contended: dict[Place, int] = {}
        self._without_until = 0.0

    def note(self, place: Place, *, conflict: bool) -> None:
        """Whether a claim has met with others."""
        calm = CALM if conflict else self.contended.get(place, 0) - 1
        if calm > 0:
            self.contended[place] = calm
        else:
            self.contended.pop(place, None)

    @contextmanager
    def turn(self, cursor: CursorWrapper, claim: Claim) -> Iterator[bool]:
        """Wait until no other claim is under way, where that helps; whether it was worth it."""
        is_needed = claim.place in self.contended and claim.limit >= LARGE
        if not is_needed or monotonic() < self._without_until:
            yield False
            return
        name = self._name(cursor, claim.place)
        cursor.execute("SELECT IS_FREE_LOCK(%s), GET_LOCK(%s, %s)", [name, name, TURN_SECONDS])
        was_free, is_ours = cursor.fetchone()
        if not is_ours:
            self._without_until = monotonic() + WITHOUT_SECONDS
        try:
            yield bool(is_ours)
        finally:
            if is_ours:
                self._release(cursor, name)
            if not was_free:
                self.note(claim.place, conflict=True)

    def _release(self, cursor: CursorWrapper, name: str) -> None:
        # Where the connection is lost the lock is, too, and what is done next says so.
        with suppress(Error):
            cursor.execute("SELECT RELEASE_LOCK(%s)", [name])
            [is_released] = cursor.fetchone()
            if not is_released:
                # A proxy has given the session to somebody else meanwhile.
                self._without_until = float("inf")

    def _name(self, cursor: CursorWrapper, place: Place) -> str:
        """Locks are the server's, not the database's, and have names of at most 64 characters."""
        where = repr((cursor.db.settings_dict["NAME"], *place))
        return f"dbqueue {sha1(where.encode(), usedforsecurity=False).hexdigest()}"
