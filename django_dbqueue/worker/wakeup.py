"""What a claiming thread sleeps on: threads ring it, and databases that can tell of commits."""

import random
import time
from collections.abc import Iterable

from django.db import connections

from ..dialects import Dialect, dialect_of
from .signalling import WakeupPipe, wait_readable

BACK_OFF_AFTER_SECONDS = 0.5  # without work; then a database is looked at less and less often
BACK_OFF_MAX = 40  # times less often at most
# Looks because of news that find nothing: one right after the other, and from then on.
LOOKS_MAX, LOOKS_A_SECOND = 20, 20.0


class Wakeup:
    """Like ``threading.Event``, for one sleeping thread."""

    def __init__(self, aliases: Iterable[str]) -> None:
        self.aliases = sorted(aliases)
        self._wakeup = WakeupPipe()
        self.is_notified = False
        self._notified_at = time.monotonic()
        # When to look once more: who tells of news may be silent right after.
        self._recheck_at = float("inf")
        self._looks_left, self._looks_at = float(LOOKS_MAX), self._notified_at

    def close(self) -> None:
        self._wakeup.close()

    def notify(self) -> None:
        # A pipe is expensive.
        if not self.is_notified:
            # In this order: else the flag may be set while the sleeper waits, and nobody wakes it.
            self.is_notified = True
            self._notified_at = time.monotonic()
            self._wakeup.set()

    def sleep(self, seconds: float) -> None:
        """Until it is rung, or the time is over."""
        if seconds > 0 and not self.is_notified:
            self._wakeup.wait(seconds)
        self._wake()

    def sleep_until_news(self, seconds: float) -> bool:
        """The same, or until a database has news, which is the answer."""
        dialects = [dialect_of(connections[alias]) for alias in self.aliases]
        end = time.monotonic() + seconds
        # Some came in with the answer of another statement.
        news = self._has_news(dialects)
        while not (self.is_notified or news) and (left := end - time.monotonic()) > 0:
            idle = time.monotonic() - self._notified_at
            back_off = min(BACK_OFF_MAX, max(1.0, idle / BACK_OFF_AFTER_SECONDS))
            naps = [d.look_every * back_off for d in dialects if d.look_every is not None]
            heard = [d.descriptor for d in dialects if d.descriptor is not None]
            recheck = max(0.0, self._recheck_at - time.monotonic())
            wait_readable([self._wakeup.descriptor, *heard], min([left, recheck, *naps]))
            # Else what came too late for its flag would keep waking us.
            self._wakeup.clear()
            news = self._has_news(dialects)
        self._wake()
        return news

    def hesitate(self) -> None:
        """Before a look because of news. These come with each job of the database, and many idle
        threads that looked for each job of others would keep it from its work."""
        now = time.monotonic()
        left = self._looks_left + LOOKS_A_SECOND * (now - self._looks_at)
        self._looks_left, self._looks_at = max(-1.0, min(LOOKS_MAX, left) - 1), now
        if self._looks_left < 0:
            self.sleep(-self._looks_left / LOOKS_A_SECOND * random.uniform(0.5, 1.0))

    def found_work(self) -> None:
        """The news were for us."""
        self._looks_left = LOOKS_MAX

    def _has_news(self, dialects: list[Dialect]) -> bool:
        rechecks = [d.silent_after_news for d in dialects if d.has_news()]
        # After they were asked: what they have heard may have been said just before that.
        now = time.monotonic()
        if any(rechecks):
            self._recheck_at = now + max(rechecks)
        if rechecks:
            return True
        if now < self._recheck_at:
            return False
        self._recheck_at = float("inf")
        return True

    def _wake(self) -> None:
        # In this order: who rings in between is seen now, or rings the next time at once.
        self.is_notified = False
        self._wakeup.clear()
