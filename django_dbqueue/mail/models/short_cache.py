"""What was so a moment ago is taken to be so still."""

import math
from collections.abc import Callable, Hashable
from time import monotonic

SECONDS = 1.0


class ShortCache:
    """Remembers for a second that something was found to be so, so that not every message asks.

    What another process changes meanwhile is seen at most a second later.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, float] = {}

    def was_so(self, what: Hashable, look: Callable[[], bool]) -> bool:
        now = monotonic()
        if now - self._seen.get(what, -math.inf) < SECONDS:
            return True
        if not look():
            return False
        self._seen[what] = now
        return True

    def forget(self) -> None:
        self._seen.clear()
