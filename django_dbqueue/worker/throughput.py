"""How many jobs a worker starts in a minute."""

import time
from collections import deque

WINDOW = 60.0  # seconds


class ThroughputCounter:
    """Remembers the last minute of a count that grows."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def rate(self, count: int) -> int:
        """By how much it has grown within the last minute."""
        now = time.monotonic()
        self._seen.append((now, count))
        while now - self._seen[0][0] > WINDOW:
            self._seen.popleft()
        return count - self._seen[0][1]
