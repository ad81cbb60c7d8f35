"""Tells the outside that the supervisor is alive (systemd, and a file), and how much it does."""

import contextlib
import os
import socket
import time
from collections import deque
from heapq import nsmallest
from operator import attrgetter
from pathlib import Path

from .shared_memory import SharedMemory

TELL_SECONDS = 1.0  # between two signs of life
RATE_SECONDS = 60.0
SHOWN_MAX = 100  # jobs of a child in a worker's row, those that have run for the longest
_started_at = attrgetter("started_at")


class HealthCheck:
    """Touches ``--health-file`` and answers systemd's watchdog once a second.

    It goes on while a database is away: a restart would not bring it back, and would cost the jobs
    that run.
    """

    def __init__(self, health_file: str | None) -> None:
        self.health_file = None if health_file is None else Path(health_file)
        self._next_at = 0.0

    def turn(self) -> None:
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + TELL_SECONDS
        notify("WATCHDOG=1")
        if self.health_file is not None:
            # A file that grows old says it well enough.
            with contextlib.suppress(OSError):
                self.health_file.touch()

    def close(self) -> None:
        """An ordinary end leaves no file."""
        if self.health_file is not None:
            with contextlib.suppress(OSError):
                self.health_file.unlink()


class ThroughputCounter:
    """How many jobs a worker starts in a minute: by how much their count has grown."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def rate(self, count: int) -> int:
        now = time.monotonic()
        self._seen.append((now, count))
        while now - self._seen[0][0] > RATE_SECONDS:
            self._seen.popleft()
        return count - self._seen[0][1]


def shown(shared: SharedMemory) -> list[dict[str, object]]:
    """What a child runs, since when, and for how long it may, as a worker's row says it."""
    now = time.monotonic()
    return [
        {
            "job": f"{job.table} {job.key}",
            "seconds": round(max(0.0, now - job.started_at), 1),
            "limit": round(max(0.0, job.deadline - job.started_at), 1),
        }
        for job in nsmallest(SHOWN_MAX, shared.running(), key=_started_at)
    ]


def notify(state: str) -> None:
    """Tell systemd, where it asked for it (sd_notify(3)); nobody there is no error."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.sendto(state.encode(), address)
