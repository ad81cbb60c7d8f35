"""Whose turn it is, of clients that say more at once than one turn of theirs takes."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

LINES_AT_ONCE = 50  # of one client in one turn, of those that are no commands
# Of each turn of all, and then others are heard: the loop shares the interpreter with the broker.
TURN_SECONDS, REST_SECONDS = 0.001, 0.004


class Turns:
    """Those who come are called one after another, for a little while each time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._is_set = False

    def wait(self, call: Callable[[], None]) -> None:
        """Be called once, after those who came before."""
        self._calls.append(call)
        self._set()

    def _set(self) -> None:
        if self._calls and not self._is_set:
            self._is_set = True
            self._loop.call_later(REST_SECONDS, self._go)

    def _go(self) -> None:
        self._is_set = False
        end = time.monotonic() + TURN_SECONDS
        try:
            while self._calls and time.monotonic() < end:
                self._calls.popleft()()
        finally:
            self._set()
