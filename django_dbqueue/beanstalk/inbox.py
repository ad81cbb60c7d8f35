"""What clients want, and have not been answered yet."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from . import commands
from .state import Client

Wanted = tuple[Client, Any]  # a command, or news of the client
# They name a job, and change it.
CHANGES_ONE = {
    *(commands.Delete, commands.Touch, commands.Release, commands.Bury),
    *(commands.KickJob, commands.ReserveJob),
}
PUTS_MAX, PUT_BYTES_MAX = 1000, 4 * 2**20  # of all clients in one turn, but for a larger body


class News(Enum):
    """What becomes of a client's connection."""

    CONNECTED = "it is new"
    HALF_CLOSED = "it says nothing more, and reads"
    GONE = "it is closed"


class Inbox:
    """Filled from any thread, and emptied by one."""

    def __init__(self, counts: Counter[type[Any]], notify: Callable[[], None]) -> None:
        """``counts``: of commands; ``notify`` wakes the one that takes them."""
        self._counts = counts
        self._notify = notify
        self._lock = threading.Lock()
        self._wanted: list[Wanted] = []
        self._later: list[Wanted] = []
        self.later_at = float("inf")

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def put(self, client: Client, *given: Any) -> None:
        with self._lock:
            self._counts.update(map(type, given))
            self._wanted += [(client, command) for command in given]
        self._notify()

    def count(self, kind: type[Any] | None) -> None:
        with self._lock:
            self._counts[kind or object] += 1

    def put_back(self, wanted: Sequence[Wanted]) -> None:
        """They come first the next time, for which nobody is woken."""
        if wanted:
            with self._lock:
                self._wanted[:0] = wanted

    def put_later(self, wanted: Sequence[Wanted], seconds: float) -> None:
        """They come first once this time is over."""
        if wanted:
            self._later += wanted
            self.later_at = min(self.later_at, time.monotonic() + seconds)

    def all(self) -> list[Wanted]:
        with self._lock:
            return [*self._later, *self._wanted]

    def take(self) -> list[Wanted]:
        """All of it, but no second command that changes the same job, and so many puts: the rest is
        for the next time."""
        with self._lock:
            wanted, self._wanted = self._wanted, []
        if time.monotonic() >= self.later_at:
            wanted = self._later + wanted
            self._later, self.later_at = [], float("inf")
        wanted = self._without_followers(wanted)
        taken: list[Wanted] = []
        left: list[Wanted] = []
        named: set[int] = set()
        puts = size = 0
        for client, command in wanted:
            key = command.id if type(command) in CHANGES_ONE else None
            is_put = isinstance(command, commands.Put)
            is_over = is_put and (puts >= PUTS_MAX or size >= PUT_BYTES_MAX)
            (left if is_over or key in named else taken).append((client, command))
            if key is not None:
                named.add(key)
            if is_put:
                puts, size = puts + 1, size + len(command.body)
        self.put_back(left)
        return taken

    def _without_followers(self, wanted: list[Wanted]) -> list[Wanted]:
        """A client is answered in the order of its commands: those that come after one that is for
        later are for later, too."""
        waiting = {client for client, _ in self._later}
        if not waiting:
            return wanted
        follows = [one for one in wanted if one[0] in waiting and not isinstance(one[1], News)]
        with self._lock:
            self._later += follows
        return [one for one in wanted if one[0] not in waiting or isinstance(one[1], News)]
