"""One child of a supervisor: its process, and what it leaves behind."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from .assignment import Assignment, QueueName
from .shared_memory import CANCEL, STOP, WRITE_STACKS, ExitStatus, Role, Running, SharedMemory
from .stack_dumps import StackDump

STACK_SECONDS_MAX = 5.0  # to write a stack, on a busy host; then the child is killed without
FORCE_STACKS_SECONDS = 2.0  # of these; then a job keeps Python's lock
WRITE_SECONDS_MAX = 2.0  # in which a child may write how its other jobs ended

Share = int | None  # the jobs that a child may run; None = any number


@dataclass
class Child:
    """One living child: its process, its claims' owner prefix, its shared memory and its pipe."""

    pid: int
    owner_prefix: str
    shared: SharedMemory
    stacks: StackDump
    control: int
    share: Share
    role: Role = Role.ORDINARY
    assignment: Assignment | None = None
    # Those that it has, and those that it was told to leave to others.
    queues: frozenset[QueueName] = frozenset()
    left_to_others: frozenset[QueueName] = frozenset()
    # By role, how many suspects of its own were noticed.
    handed_over: dict[Role, int] = field(default_factory=dict)
    started_at: float = field(default_factory=time.monotonic)
    # Asked to stop, its successor at work.
    leaving: bool = False
    # Asked to stop, since fewer are needed.
    surplus: bool = False
    kill_at: float | None = None
    overdue: list[Running] = field(default_factory=list)
    force_stacks_at: float | None = None
    write_until: float = 0.0

    @property
    def is_staying(self) -> bool:
        """Whether it runs all but suspects, and was not asked to leave."""
        return self.role is Role.ORDINARY and not self.leaving

    @property
    def is_being_killed(self) -> bool:
        return self.kill_at is not None

    def may_be_killed(self, now: float) -> bool:
        """Whether its time has come, or all is known and written that it leaves."""
        if self.kill_at is not None and now >= self.kill_at:
            return True
        has_written = self.shared.has_written or now >= self.write_until
        return has_written and self.stacks.has_answered([job.thread for job in self.overdue])

    def ask_to_stop(self) -> None:
        self._say(STOP)

    def cancel(self) -> None:
        """What can be stopped: it gives the jobs of coroutines back."""
        self._say(CANCEL)

    def _say(self, word: bytes) -> None:
        try:
            os.write(self.control, word)
        except BrokenPipeError:
            pass  # it is gone already

    def kill_soon(self, overdue: Sequence[Running] = ()) -> None:
        """To be killed: at once, or, for jobs over their time to run, once their stack is known."""
        self.overdue = list(overdue)
        self.kill_at = time.monotonic()
        if overdue:
            self._say(WRITE_STACKS)
            self.write_until = self.kill_at + WRITE_SECONDS_MAX
            self.force_stacks_at = self.kill_at + FORCE_STACKS_SECONDS
            self.kill_at += STACK_SECONDS_MAX


@dataclass(frozen=True)
class ExitedChild:
    """What an ended child leaves behind: whose claims, its exit code, what it ran."""

    child: Child
    code: int
    started: list[Running]

    @property
    def exit_status(self) -> ExitStatus:
        return self.child.shared.exit_status

    @property
    def is_crash(self) -> bool:
        """Whatever its exit code: a job may call ``os._exit(0)``."""
        return self.exit_status is ExitStatus.NONE and not self.child.is_being_killed

    @property
    def how(self) -> str:
        return f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
