"""Children of a supervisor: forked, watched, killed, replaced."""

import logging
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from django.db import connections

from ..lifecycle.suspects import SACRIFICIAL
from .session import close_left_behind
from .shared_memory import CANCEL, STOP, WRITE_STACKS, ExitStatus, Role, Running, SharedMemory
from .stack_dumps import StackDump

logger = logging.getLogger("django_dbqueue")

YOUNG_SECONDS = 5.0  # a child that dies younger is replaced later and later
FREE_DEATHS = 3  # so many young deaths in a row cost no pause
FORK_RETRY_SECONDS = 5.0
STACK_SECONDS_MAX = 5.0  # to write a stack, on a busy host; then the child is killed without
FORCE_STACKS_SECONDS = 2.0  # of these; then a job keeps Python's lock
STATM = "/proc/{}/statm"  # by pid

TellOfBeats = Callable[[SharedMemory], None]
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
    # By role, how many suspects of its own were noticed.
    handed_over: dict[Role, int] = field(default_factory=dict)
    started_at: float = field(default_factory=time.monotonic)
    # Asked to stop, its successor at work.
    leaving: bool = False
    kill_at: float | None = None
    overdue: list[Running] = field(default_factory=list)
    force_stacks_at: float | None = None

    @property
    def is_being_killed(self) -> bool:
        return self.kill_at is not None

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


class Children:
    """Keeps the wanted number of children alive; a crashing one comes back with growing pauses."""

    def __init__(
        self,
        shares: list[Share],
        threads: int,
        uuid: str,
        body: Callable[..., int],
        aliases: Iterable[str] = ("default",),
        apart: Sequence[str] = (),
        coroutines: int = 0,
    ) -> None:
        """``apart``: of these ``aliases`` each has children of its own; none = all serve all."""
        # The shares of those that are missing.
        self.shares = shares
        self.threads = threads
        self.coroutines = coroutines
        self.uuid = uuid
        self.body = body
        self.aliases = tuple(aliases)
        self.apart = apart
        self.living: dict[int, Child] = {}
        self.spawned = 0
        self.jobs_before = 0
        self.paused = False
        self._to_replace: list[Child] = []
        self._young_deaths = 0
        self._next_spawn = 0.0

    @property
    def jobs(self) -> int:
        """How many jobs all of them have started, the dead ones too."""
        return self.jobs_before + sum(child.shared.jobs for child in self.living.values())

    def fill(self, tell_of_beats: TellOfBeats) -> float:
        """Fork what is missing, unless the last ones died too young to try again already; seconds
        until there may be more to do."""
        if self._may_fork():
            close_left_behind()
        while self._may_fork():
            try:
                self.fork(tell_of_beats, self.shares[-1])
            except OSError as error:
                # No process, memory, descriptor or place for a file, for now.
                logger.error("no child can be started: %s; trying again in 5 s", error)  # noqa: TRY400
                self._next_spawn = time.monotonic() + FORK_RETRY_SECONDS
            else:
                self.shares.pop()
        return max(0.0, self._next_spawn - time.monotonic()) if self.shares else 60.0

    def _may_fork(self) -> bool:
        return bool(self.shares) and time.monotonic() >= self._next_spawn

    def fork(self, tell_of_beats: TellOfBeats, share: Share, role: Role = Role.ORDINARY) -> None:
        """Start one child; ``OSError`` where the system has none."""
        shared = SharedMemory(self.threads, self._aliases_of_next(role), self.coroutines)
        stacks = StackDump()
        tell_of_beats(shared)
        shared.paused = self.paused
        mark = "" if role is Role.ORDINARY else SACRIFICIAL
        prefix = f"{self.uuid}.{mark}{self.spawned + 1}-"
        connections.close_all()
        reader, writer = os.pipe()

        def live() -> int:
            os.close(writer)
            self.let_go()
            stacks.record()
            return self.body(stacks, prefix, shared, share, reader, role)

        try:
            pid = os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            raise
        self.spawned += 1
        if not pid:
            leave(live)
        os.close(reader)
        self.living[pid] = Child(pid, prefix, shared, stacks, writer, share, role)

    def _aliases_of_next(self, role: Role) -> Sequence[str]:
        """Those that a new child serves: where each has children of its own, that with fewest."""
        if not self.apart or role is not Role.ORDINARY:
            return self.aliases
        staying = [one for one in self.living.values() if one.role is role and not one.leaving]
        served = Counter(alias for child in staying for alias in child.shared.aliases)
        return [min(self.apart, key=lambda alias: served[alias])]

    def let_go(self) -> None:
        """In a forked process: children notice by their pipes that their supervisor is gone."""
        for child in self.living.values():
            os.close(child.control)

    def pause(self, paused: bool) -> None:
        self.paused = paused
        for child in self.living.values():
            child.shared.paused = paused

    def replace_all(self) -> None:
        """Let every child of now be followed by a new one, one by one."""
        self._to_replace = [one for one in self.living.values() if one.role is Role.ORDINARY]

    def replace_next(self) -> None:
        """Ask the next one to leave when the last one has left. Its successor comes at once; where
        jobs are counted, once it is known how many are left."""
        self._to_replace = [one for one in self._to_replace if one.pid in self.living]
        if self._to_replace and not any(child.leaving for child in self.living.values()):
            child = self._to_replace.pop(0)
            child.leaving = True
            child.ask_to_stop()
            if child.share is None:
                self._want_successor(child)

    def kill_due(self) -> bool:
        """Kill those whose time has come; whether any condemned one is left."""
        is_any_left = False
        for child in self.living.values():
            if child.kill_at is None:
                continue
            is_any_left, now = True, time.monotonic()
            threads = [job.thread for job in child.overdue]
            if now >= child.kill_at or child.stacks.has_answered(threads):
                os.kill(child.pid, signal.SIGKILL)
            elif child.force_stacks_at is not None and now >= child.force_stacks_at:
                child.force_stacks_at = None
                child.stacks.force_stacks(child.pid)
        return is_any_left

    def exited_children(self) -> Iterator[ExitedChild]:
        """Children that have ended since the last call."""
        for pid in list(self.living):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            child = self.living.pop(pid)
            os.close(child.control)
            self.jobs_before += child.shared.jobs
            exited = ExitedChild(child, os.waitstatus_to_exitcode(status), child.shared.running())
            if child.role is Role.ORDINARY:
                if exited.is_crash:
                    self._slow_down(exited)
                # What was claimed and then not run (it had expired) is left of its share.
                has_successor = child.leaving and child.share is None
                if not has_successor and exited.exit_status is not ExitStatus.EMPTY:
                    self._want_successor(child)
            yield exited

    def _want_successor(self, child: Child) -> None:
        done = child.shared.jobs + child.shared.taken
        rest = None if child.share is None else max(0, child.share - done)
        if rest != 0:
            self.shares.append(rest)

    def _slow_down(self, exited: ExitedChild) -> None:
        young = time.monotonic() - exited.child.started_at < YOUNG_SECONDS
        self._young_deaths = self._young_deaths + 1 if young else 0
        if self._young_deaths > FREE_DEATHS:
            # A job that kills is buried after the third time, so there no long pause is needed.
            most = 1.0 if exited.started else 30.0
            pause = min(most, 0.1 * 2.0 ** (self._young_deaths - FREE_DEATHS))
            self._next_spawn = time.monotonic() + pause
            logger.warning("children keep dying young; the next one starts in %.1f s", pause)


def resident(pid: int) -> int:
    """The resident memory of a process in bytes; 0 where the system does not tell.

    What processes share is counted for each. The kernel tells their shares apart (PSS) only by a
    lock of the other process's memory, and a supervisor waits for nobody.
    """
    try:
        pages = int(Path(STATM.format(pid)).read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def leave(body: Callable[[], int]) -> NoReturn:
    """Run a forked process's body and end the process, whatever happens in it."""
    code = 1
    try:
        code = body()
    finally:
        # A handler of the project's, or a closed stderr, must not make two supervisors of one.
        try:
            if sys.exc_info()[0] is not None:
                traceback.print_exc()
            sys.stdout.flush()
            logging.shutdown()
        finally:
            os._exit(code)
