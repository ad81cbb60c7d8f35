"""Makes the faults of a schedule, and undoes them."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any

from django.db.utils import Error

from ..conf import conf
from ..dialects import dialect_of
from .database_faults import apart, faults_for_this_database, here, sql
from .fleet import Group
from .options import Plan
from .proxy import Proxy, Way
from .recorder import tell
from .restarts import RESTART_SECONDS_MAX, Restarts
from .schedule import Fault, schedule

POLL_SECONDS = 0.05
STOP_SECONDS_MAX = 3.0  # until a process is stopped outside of a write
READ_ONLY_SECONDS = 3.0
SNAPSHOT_SHARE = 0.75  # of its interval, for which an old snapshot is held
WHOLE_WORKER_SHARE = 0.45  # of the stops
SILENT_WAYS = [way for way in Way if way is not Way.PASS]
ANSWER_DELAY_SECONDS = 5.0
_nap = threading.Event()


class CannotTorture(Exception):
    """The torture itself does not work, for a reason that its user can mend."""


class FaultInjector:
    """One run: every fault at its time, or as soon afterwards as there is somebody to meet it."""

    def __init__(self, plan: Plan, groups: list[Group], proxy: Proxy | None = None) -> None:
        """``proxy``: through it the workers reach their database."""
        self.plan = plan
        self.groups = groups
        self.proxy = proxy
        self.workers = [group for group in groups if group.is_worker]
        self.faults = faults_for_this_database()
        self.timeout = float(conf["WORKER_TIMEOUT"])
        self.threads: list[threading.Thread] = []
        self.healed = threading.Event()
        self.restarts = Restarts(plan.restart_database)
        self._stopped: set[int] = set()
        self._undo: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def run(self) -> None:
        began = time.monotonic()
        try:
            for fault in schedule(self.plan):
                self._wait(began + fault.at)
                getattr(self, f"do_{fault.kind}")(fault)
            self._wait(began + self.plan.minutes * 60)
        finally:
            self.heal()

    def _wait(self, until: float) -> None:
        """Look after the processes meanwhile."""
        while True:
            for group in self.groups:
                group.revive()
            while self._undo and self._undo[0][0] <= time.monotonic():
                heappop(self._undo)[2]()
            if self.restarts.problem:
                raise CannotTorture(self.restarts.problem)
            left = until - time.monotonic()
            if left <= 0:
                return
            _nap.wait(min(left, POLL_SECONDS))

    def heal(self) -> None:
        """Undo what is left of the faults, and wait until it is undone."""
        self.healed.set()
        while self._undo:
            heappop(self._undo)[2]()
        give_up = time.monotonic() + RESTART_SECONDS_MAX
        for thread in self.threads:
            thread.join(max(0, give_up - time.monotonic()))
        for group in self.groups:
            group.send(signal.SIGCONT)
        tell("heal", "info")

    def _later(self, seconds: float, undo: Callable[[], None]) -> None:
        heappush(self._undo, (time.monotonic() + seconds, next(self._numbers), undo))

    def _in_thread(self, work: Callable[[], object]) -> None:
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        thread = threading.Thread(target=apart, args=(work,), daemon=True)
        self.threads.append(thread)
        thread.start()

    # Processes

    def do_kill9(self, fault: Fault) -> None:
        rng = fault.rng
        if rng.random() < self.plan.groups:
            group = rng.choice(self.groups)
            pids = group.family()
            group.was_killed = True
            group.send(signal.SIGKILL)
            tell("kill", "info", pids=pids, group=True, supervisor=True, target=group.who)
        elif child := self._a_child(rng):
            group, pid = child
            _send(os.kill, pid, signal.SIGKILL)
            tell("kill", "info", pids=[pid], group=False, supervisor=False, target=group.who)

    def _a_child(self, rng: random.Random) -> tuple[Group, int] | None:
        """One that is not stopped, nor its worker."""
        going = [group for group in self.workers if group.is_alive and not group.is_stopped]
        pids = [(group, pid) for group in going for pid in group.children()]
        found = [(group, pid) for group, pid in pids if pid not in self._stopped]
        return rng.choice(found) if found else None

    def do_stop(self, fault: Fault) -> None:
        rng = fault.rng
        length = rng.uniform(0, 1)
        going = [group for group in self.workers if group.is_alive and not group.is_stopped]
        # What is continued with one stop must not be under another.
        whole = [group for group in going if not self._stopped & {*group.children()}]
        if rng.random() < WHOLE_WORKER_SHARE and whole and len(going) > len(self.workers) // 2:
            group = rng.choice(whole)
            group.is_stopped = True
            send = partial(_send, os.killpg, group.pid)
            self._stop(group, group.family(), self._seconds(length), send, group=True)
        elif child := self._a_child(rng):
            group, pid = child
            # Mostly a short one: nobody else has the jobs of a child that is stopped alone.
            seconds = self._seconds(length**3)
            self._stop(group, [pid], seconds, partial(_send, os.kill, pid), group=False)

    def _seconds(self, length: float) -> float:
        """0.5 to 3 times what others wait before they take its jobs."""
        return self.timeout * (0.5 + 2.5 * length)

    def _stop(
        self,
        target: Group,
        pids: list[int],
        seconds: float,
        send: Callable[[int], None],
        *,
        group: bool,
    ) -> None:
        known: dict[str, Any] = {"pids": pids, "group": group, "supervisor": group}
        known["target"] = target.who

        def go_on() -> None:
            self._stopped -= {*pids}
            send(signal.SIGCONT)
            tell("cont", "info", **known)
            if group and target.pid in pids:
                target.is_stopped = False

        give_up = time.monotonic() + STOP_SECONDS_MAX
        send(signal.SIGSTOP)
        # Not in the middle of a write on SQLite: nobody else could go on either.
        while dialect_of(here()).one_writer and not _is_writable():
            send(signal.SIGCONT)
            if time.monotonic() > give_up:
                # It is somebody else who is stopped already, and goes on at its own time.
                target.is_stopped = False
                return
            _nap.wait(POLL_SECONDS)
            send(signal.SIGSTOP)
        self._stopped |= {*pids}
        tell("stop", "info", **known)
        self._later(seconds, go_on)

    # The database

    def do_drop_connections(self, fault: Fault) -> None:
        def drop() -> None:
            if self.faults.drop_connection(fault.rng):
                tell("conn_kill", "info")

        self._in_thread(drop)

    def do_deadlocks(self, fault: Fault) -> None:
        tell("deadlock", "info")
        self._in_thread(partial(self.faults.contend, fault.rng))

    def do_snapshot(self, fault: Fault) -> None:
        def hold() -> None:
            for statement in self.faults.snapshot:
                sql(statement)
            sql("SELECT COUNT(*) FROM dbqueue_torture_effect")
            tell("snapshot", "info", open=True)
            self.healed.wait(self.plan.snapshot * SNAPSHOT_SHARE)
            tell("snapshot", "info", open=False)

        self._in_thread(hold)

    def do_read_only(self, fault: Fault) -> None:
        def refuse_writes() -> None:
            tell("read_only", "info", on=True)
            try:
                self.faults.read_only(on=True)
                self.healed.wait(READ_ONLY_SECONDS)
            finally:
                self._take_writes_again()
                tell("read_only", "info", on=False)

        if self.faults.takes_read_only:
            self._in_thread(refuse_writes)

    def _take_writes_again(self) -> None:
        """Until the database does it: it may be away."""
        give_up = time.monotonic() + RESTART_SECONDS_MAX
        while True:
            try:
                self.faults.read_only(on=False)
            except Error:
                here().close()
                if time.monotonic() > give_up:
                    raise
                _nap.wait(0.2)
            else:
                return

    def do_silence(self, fault: Fault) -> None:
        """For a while the database does not answer the workers."""
        proxy = self.proxy
        if proxy is None:
            return
        way = fault.rng.choice(SILENT_WAYS)

        def end() -> None:
            proxy.be(Way.PASS)
            tell("silence", "info", on=False)

        tell("silence", "info", on=True, way=way.name)
        proxy.be(way, seconds=ANSWER_DELAY_SECONDS)
        self._later(self.timeout * fault.rng.uniform(0.3, 1.5), end)

    def do_restart(self, fault: Fault) -> None:
        self._in_thread(self.restarts.restart)


def _send(how: Callable[[int, int], None], pid: int, number: int) -> None:
    try:
        how(pid, number)
    except ProcessLookupError:
        pass  # it ended meanwhile


def _is_writable() -> bool:
    """Whether nobody keeps the lock that all writers of a SQLite database share."""
    sql("PRAGMA busy_timeout = 500")
    try:
        sql("BEGIN IMMEDIATE")
    except Error:
        return False
    sql("ROLLBACK")
    return True
