"""What a supervisor and an agent tell each other: neither ever waits for the other."""

import pickle  # nosec B403
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..dialects.types import ConnectionRoom
from ..lifecycle.reap import Trace
from .assignment import QueueName
from .child import ExitedChild
from .shared_memory import Role, Running
from .signalling import wait_readable

HEAD_BYTES = 4  # they tell how long a message is
READ_BYTES = 65_536  # at a time

# Of the jobs that a child ran: by database alias and queue table, and by key.
LastRuns = dict[tuple[str, str], dict[str, Trace]]

# What a supervisor says.


@dataclass(frozen=True)
class BeatNow:
    """``state``: the columns of the worker's row."""

    state: Mapping[str, Any]


@dataclass(frozen=True)
class AbandonedClaims:
    """What a child leaves behind: whose claims, and what is known of the jobs that it ran."""

    owner_prefix: str
    started: LastRuns = field(default_factory=dict)
    overdue: LastRuns = field(default_factory=dict)
    # Coroutines that waited as the child died: no evidence against them.
    waited: LastRuns = field(default_factory=dict)

    @classmethod
    def of(cls, exited: ExitedChild) -> "AbandonedClaims":
        """What was stopped by us is charged to nobody but those that were over their time. Among
        suspects, where none was at its turn, it may have been any of them."""
        child = exited.child
        started, waited = exited.started, []
        if child.is_being_killed:
            started = []
        elif child.role is Role.ORDINARY or any(job.executes for job in started):
            waited = [job for job in started if not job.executes]
            started = [job for job in started if job.executes]
        runs = [_last_runs(exited, jobs) for jobs in (started, child.overdue, waited)]
        return cls(child.owner_prefix, *runs)


def _last_runs(exited: ExitedChild, jobs: Iterable[Running]) -> LastRuns:
    now, found = time.monotonic(), LastRuns()
    for job in jobs:
        known = Trace(now - job.started_at, exited.child.stacks.of(job.thread))
        found.setdefault((job.using, job.table), {})[job.key] = known
    return found


@dataclass(frozen=True)
class SignOff:
    """Once all claims of exited children are given back."""

    reason: str


# What an agent says, next to a ``Beat`` that was written.


@dataclass(frozen=True)
class Missed:
    """A beat could not be written."""


@dataclass(frozen=True)
class GivesBack:
    """Some claims of an exited child are given back."""


@dataclass(frozen=True)
class Recovered:
    """No claim of this exited child is left."""

    owner_prefix: str


@dataclass(frozen=True)
class Waiting:
    """The ready jobs of one queue: how many (of very many, at least so many), and for how many
    seconds the first of them may have waited."""

    name: QueueName
    jobs: int
    seconds: float


@dataclass(frozen=True)
class Backlog:
    """What waits on one database for this worker, and whether that has connections left; to be
    believed until a time of the monotonic clock."""

    good_until: float
    waiting: tuple[Waiting, ...]
    room: ConnectionRoom | None


class Channel:
    """One end of a pair of sockets, for messages of any size; what cannot be sent yet is kept."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(0)
        self._end = end
        self._unsent = b""
        self._unread = b""
        # The other process is gone.
        self.is_closed = False

    @property
    def descriptor(self) -> int:
        """Readable when something has arrived, or the other process is gone."""
        return self._end.fileno()

    def send(self, message: object) -> None:
        body = pickle.dumps(message)
        self._unsent += len(body).to_bytes(HEAD_BYTES) + body
        self.flush()

    def flush(self) -> None:
        """Send what could not be sent before, as far as that is possible by now."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._end.send(self._unsent) :]
        except BlockingIOError:
            pass  # it has not read what was sent before
        except ConnectionError:
            self.is_closed = True

    def receive(self) -> list[Any]:
        """The messages that have arrived whole."""
        try:
            while data := self._end.recv(READ_BYTES):
                self._unread += data
            self.is_closed = True
        except BlockingIOError:
            pass  # that was all
        except ConnectionError:
            self.is_closed = True
        messages = []
        while len(self._unread) >= HEAD_BYTES:
            end = HEAD_BYTES + int.from_bytes(self._unread[:HEAD_BYTES])
            if len(self._unread) < end:
                break
            body, self._unread = self._unread[HEAD_BYTES:end], self._unread[end:]
            messages.append(pickle.loads(body))  # noqa: S301  # nosec B301  # of our own process
        return messages

    def wait(self, seconds: float) -> None:
        """Until something has arrived, or the time is over."""
        wait_readable([self.descriptor], seconds)

    def close(self) -> None:
        self._end.close()
