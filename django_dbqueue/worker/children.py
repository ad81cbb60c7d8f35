"""Children of a supervisor: forked, watched, killed, replaced."""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from django.db import connections

from ..conf.bounds import PROCESSES_MAX
from ..lifecycle.suspects import SACRIFICIAL
from .assignment import Assignment
from .child import Child, ExitedChild, Share
from .forked import CHILD, leave
from .health import shown
from .session import close_left_behind
from .shared_memory import ExitStatus, Role, SharedMemory
from .stack_dumps import StackDump

logger = logging.getLogger("django_dbqueue")

YOUNG_SECONDS = 5.0  # a child that dies younger is replaced later and later
FREE_DEATHS = 3  # so many young deaths in a row cost no pause
FORK_RETRY_SECONDS = 5.0
STATM = "/proc/{}/statm"  # by pid

TellOfBeats = Callable[[SharedMemory], None]
Group = str | None  # the alias of a database that has children of its own; None = all of them


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
        reserve: Sequence[Share] = (),
        is_changing: bool = False,
        has_begun: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """``apart``: of these ``aliases`` each has children of its own; none = all serve all.
        ``reserve``: where jobs are counted, the shares of those that may come later.
        ``is_changing``: their number does, or which queues they serve. ``has_begun``: by alias,
        whether jobs may be claimed there already."""
        # The shares of those that are missing.
        self.shares = shares
        self.threads = threads
        self.coroutines = coroutines
        self.uuid = uuid
        self.body = body
        self.aliases = tuple(aliases)
        self.apart = apart
        self.is_changing = is_changing
        self.has_begun = has_begun
        self.reserve = list(reserve)
        self._are_counted = any(share is not None for share in shares)
        # By database that has children of its own, or for all together: how many there are to be.
        self.groups: tuple[Group, ...] = tuple(apart) or (None,)
        self.wanted = dict.fromkeys(self.groups, len(shares) // len(self.groups))
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

    def running(self) -> dict[str, list[dict[str, object]]]:
        """What they run, as the worker's row has it, by pid."""
        return {str(child.pid): shown(child.shared) for child in self.living.values()}

    def group_of(self, alias: str) -> Group:
        return alias if alias in self.wanted else None

    def staying(self, group: Group) -> list[Child]:
        """Those of a group that run all but suspects, and were not asked to leave."""
        staying = [child for child in self.living.values() if child.is_staying]
        return [one for one in staying if group is None or group in one.shared.aliases]

    def ordinary(self, group: Group) -> int:
        """How many of a group there are, those that are leaving too."""
        ordinary = [one for one in self.living.values() if one.role is Role.ORDINARY]
        return sum(group is None or group in one.shared.aliases for one in ordinary)

    def may_change(self, group: Group) -> bool:
        """Not while some are missing."""
        return len(self.staying(group)) == self.wanted[group]

    @property
    def more_max(self) -> int:
        """How many more there may be: where jobs are counted, some must be left for each."""
        return len(self.reserve) if self._are_counted else PROCESSES_MAX

    def grow(self, group: Group) -> None:
        """By one."""
        self.wanted[group] += 1
        self.shares.append(self.reserve.pop() if self.reserve else None)

    def come_back(self, share: Share) -> None:
        """One, for all that is left, after all have left."""
        self.reserve.clear()
        self.wanted[self.groups[0]] += 1
        self.shares.append(share)

    def shrink(self, group: Group) -> None:
        """By one, which finishes what it runs and gives back the rest: one that runs nothing, the
        youngest of these."""
        self.wanted[group] -= 1
        staying = self.staying(group)
        child = min(staying, key=lambda one: (len(one.shared.running()), -one.started_at))
        child.leaving = child.surplus = True
        child.ask_to_stop()

    def fill(self, tell_of_beats: TellOfBeats) -> float:
        """Fork what is missing, unless the last ones died too young to try again already; seconds
        until there may be more to do, unless a database begins before."""
        if self._may_fork():
            close_left_behind()
        while self._may_fork() and (aliases := self._aliases_of_next()):
            try:
                self.fork(tell_of_beats, self.shares[-1], aliases)
            except OSError as error:
                # No process, memory, descriptor or place for a file, for now.
                logger.error("no child can be started: %s; trying again in 5 s", error)  # noqa: TRY400
                self._next_spawn = time.monotonic() + FORK_RETRY_SECONDS
            else:
                self.shares.pop()
        pause = self._next_spawn - time.monotonic()
        return pause if self.shares and pause > 0 else 60.0

    def _may_fork(self) -> bool:
        return bool(self.shares) and time.monotonic() >= self._next_spawn

    def fork(
        self,
        tell_of_beats: TellOfBeats,
        share: Share,
        aliases: Sequence[str],
        role: Role = Role.ORDINARY,
    ) -> None:
        """Start one child, which serves ``aliases``; ``OSError`` where the system has none."""
        shared = SharedMemory(self.threads, aliases, self.coroutines)
        stacks = StackDump()
        tell_of_beats(shared)
        shared.paused = self.paused
        mark = "" if role is Role.ORDINARY else SACRIFICIAL
        prefix = f"{self.uuid}.{mark}{self.spawned + 1}-"
        assignment = Assignment() if self.is_changing else None
        connections.close_all()
        reader, writer = os.pipe()

        def live() -> int:
            os.close(writer)
            self.let_go()
            stacks.record()
            given = () if assignment is None else (assignment,)
            return self.body(stacks, prefix, shared, share, reader, role, *given)

        try:
            pid = os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            raise
        self.spawned += 1
        if not pid:
            leave(CHILD, live)
        os.close(reader)
        made = pid, prefix, shared, stacks, writer, share, role, assignment
        self.living[pid] = Child(*made)

    @property
    def begun(self) -> list[str]:
        """The databases on which jobs may be claimed."""
        return [alias for alias in self.aliases if self.has_begun(alias)]

    def _aliases_of_next(self) -> Sequence[str]:
        """Those that a new child serves: where each has children of its own, that which lacks
        most; none = it has to wait until another database begins."""
        begun = self.begun
        if not self.apart:
            return begun if len(begun) == len(self.aliases) else ()
        lacking = {one: self.wanted[one] - len(self.staying(one)) for one in begun}
        most = max(begun, key=lacking.__getitem__, default="")
        return [most] if lacking.get(most, 0) > 0 else ()

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
        leaving = [child for child in self.living.values() if child.leaving]
        if self._to_replace and all(child.surplus for child in leaving):
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
            if child.may_be_killed(now):
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
                if exited.exit_status is ExitStatus.EMPTY:
                    self._one_less(child)
                elif not has_successor:
                    self._want_successor(child)
            yield exited

    def _want_successor(self, child: Child) -> None:
        done = child.shared.jobs + child.shared.taken
        rest = None if child.share is None else max(0, child.share - done)
        if child.surplus:
            self.reserve += [rest] if rest else []
        elif rest != 0:
            self.shares.append(rest)
        elif self.reserve:
            self.shares.append(self.reserve.pop())
        else:
            self._one_less(child)

    def _one_less(self, child: Child) -> None:
        """It has no successor; only where all of them are one group."""
        if not child.surplus:
            self.wanted[self.groups[0]] -= 1

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
