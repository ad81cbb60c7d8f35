"""The agents of a supervisor: forked, asked, never waited for, replaced when they are stuck."""

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..guard import NOTHING_DUE
from .channel import AbandonedClaims, Backlog, BeatNow, Channel, Missed, Recovered, SignOff
from .children import FORK_RETRY_SECONDS
from .forked import AGENT, leave
from .heartbeat import Beat
from .options import REQUESTED, RESTART_REQUESTED, StopReason
from .session import ReconnectBackoff

logger = logging.getLogger("django_dbqueue")

BEAT_RETRY_SECONDS = 0.5  # until another beat is tried after one that failed
ANSWER_SHARE_MAX = 0.75  # of the worker's timeout; a beat that takes longer is missed anyway


class AgentHandle:
    """What a supervisor knows of one database, and its agent for it."""

    def __init__(self, alias: str, beat_interval: float, worker_timeout: float) -> None:
        self.alias = alias
        self.beat_interval = beat_interval
        self.answer_seconds_max = ANSWER_SHARE_MAX * worker_timeout
        # The last beat that was written.
        self.last: Beat | None = None
        # Until an agent says that their claims are given back.
        self.abandoned: dict[str, AbandonedClaims] = {}
        self.sign_off: SignOff | None = None
        self.has_signed_off = False
        # What waits there, where the worker wants to know.
        self.backlog: Backlog | None = None
        # When something was last given back.
        self.recovered_at = 0.0
        self.pid = 0
        self.channel: Channel | None = None
        self.beat_at = 0.0
        self.fork_at = 0.0
        self._asked_at: float | None = None
        self._backoff = ReconnectBackoff(f"working on {alias}")

    @property
    def is_due(self) -> bool:
        """Whether a beat is to be asked for now."""
        is_free = self.channel is not None and self._asked_at is None
        return is_free and time.monotonic() >= self.beat_at

    def wait(self) -> float:
        """Seconds until there is something to do with it, unless it says something."""
        if self.has_signed_off:
            return NOTHING_DUE
        if not self.pid:
            until = self.fork_at
        elif self._asked_at is not None:
            until = self._asked_at + self.answer_seconds_max
        else:
            until = self.beat_at
        return max(0.0, until - time.monotonic())

    def begin(self, pid: int, channel: Channel) -> None:
        """With a new agent: it hears what the one before has not done."""
        self.pid, self.channel = pid, channel
        self._asked_at, self.beat_at = None, 0.0
        for message in [*self.abandoned.values(), self.sign_off]:
            if message is not None:
                channel.send(message)

    def tell(self, message: object) -> None:
        """An agent that is yet to come hears of it then."""
        if isinstance(message, AbandonedClaims):
            self.abandoned[message.owner_prefix] = message
        elif isinstance(message, SignOff):
            self.sign_off = message
        if self.channel is not None:
            self.channel.send(message)

    def ask(self, state: Mapping[str, Any]) -> None:
        """For a beat."""
        self._asked_at = time.monotonic()
        self.beat_at = self._asked_at + self.beat_interval
        self.tell(BeatNow(state))

    def listen(self) -> None:
        if self.channel is None:
            return
        self.channel.flush()
        for message in self.channel.receive():
            if isinstance(message, Beat):
                self.last, self._asked_at = message, None
                self._backoff.worked()
            elif isinstance(message, Missed):
                self._asked_at = None
                self.beat_at = time.monotonic() + min(BEAT_RETRY_SECONDS, self.beat_interval)
            elif isinstance(message, Backlog):
                self.backlog = message
            else:
                self.recovered_at = time.monotonic()
                if isinstance(message, Recovered):
                    self.abandoned.pop(message.owner_prefix, None)

    def look(self) -> None:
        """Kill an agent that is stuck, and note when one is gone."""
        if not self.pid:
            return
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        if ended:
            self.listen()  # its last words
            self.let_go()
            self.pid, self._asked_at = 0, None
            code = os.waitstatus_to_exitcode(status)
            self.has_signed_off = self.sign_off is not None and code == 0
            if code not in {0, -signal.SIGKILL}:
                pause = self._backoff.failed(Exception(f"exit code {code}"))
                self.fork_at = time.monotonic() + pause
        elif self._asked_at and time.monotonic() - self._asked_at > self.answer_seconds_max:
            message = "database %s does not answer: what worked on it is replaced"
            logger.warning(message, self.alias)
            self._asked_at = None
            self.kill()

    def kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def let_go(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None


class Agents:
    """One for each database."""

    def __init__(
        self, handles: list[AgentHandle], body: Callable[[AgentHandle, Channel], int]
    ) -> None:
        """``body`` is what a forked agent does."""
        self.handles = handles
        self.body = body

    def __iter__(self) -> Iterator[AgentHandle]:
        return iter(self.handles)

    def turn(self) -> None:
        """Hear them, and fork those that are missing."""
        for handle in self.handles:
            handle.listen()
            handle.look()
            is_missing = not handle.pid and not handle.has_signed_off
            if is_missing and time.monotonic() >= handle.fork_at:
                self._fork(handle)

    def _fork(self, handle: AgentHandle) -> None:
        ours, theirs = socket.socketpair()
        try:
            pid = os.fork()
        except OSError as error:
            # No process or memory, for now.
            logger.error("no agent can be started: %s; trying again in 5 s", error)  # noqa: TRY400
            handle.fork_at = time.monotonic() + FORK_RETRY_SECONDS
            ours.close()
            theirs.close()
            return
        if not pid:
            ours.close()
            leave(AGENT, lambda: self.body(handle, Channel(theirs)))
        theirs.close()
        handle.begin(pid, Channel(ours))

    def descriptors(self) -> list[int]:
        """Readable when one of them has said something, or is gone."""
        return [one.channel.descriptor for one in self.handles if one.channel is not None]

    def wait(self) -> float:
        """Seconds until there is something to do, unless one of them says something."""
        return min(handle.wait() for handle in self.handles)

    def beat_now(self) -> None:
        for handle in self.handles:
            handle.beat_at = 0.0

    def tell(self, message: object) -> None:
        for handle in self.handles:
            handle.tell(message)

    def has_begun(self, alias: str) -> bool:
        """Whether others can see this worker there: who claims before that is missed by nobody."""
        return any(one.alias == alias and one.last is not None for one in self.handles)

    @property
    def have_signed_off(self) -> bool:
        return all(handle.has_signed_off for handle in self.handles)

    @property
    def have_recovered(self) -> bool:
        """Whether nothing is left to give back of the children that have exited."""
        return not any(handle.abandoned for handle in self.handles)

    @property
    def recovered_at(self) -> float:
        """When one of them has last given back something."""
        return max(handle.recovered_at for handle in self.handles)

    def asks(self, what: str) -> bool:
        """Whether people asked for something in one of the worker's rows."""
        return any(one.last is not None and getattr(one.last, what) for one in self.handles)

    @property
    def stop_request(self) -> StopReason | None:
        """What people asked for in one of the rows, if that was to stop."""
        if not self.asks("stop_requested"):
            return None
        return RESTART_REQUESTED if self.asks("restart_requested") else REQUESTED

    def let_go(self) -> None:
        """In a forked process: agents notice by their channels that their supervisor is gone."""
        for handle in self.handles:
            handle.let_go()

    def kill(self) -> None:
        """Those that are left."""
        for handle in self.handles:
            handle.kill()
