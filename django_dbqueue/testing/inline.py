"""``runworker`` in the calling thread."""

import logging
import time
import uuid
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import timedelta
from operator import methodcaller
from typing import Any, Self

from django.db import connections
from django.db.utils import Error

from .. import signals
from ..conf.bounds import ProcessRange
from ..current import workers_own
from ..fields import check_seconds
from ..lifecycle.policy import MAX_SECONDS
from ..lifecycle.table import Table
from ..management.commands.runworker import Command
from ..models import Worker
from ..worker import job_signals
from ..worker.agent import Recovery
from ..worker.buffer import Item
from ..worker.channel import AbandonedClaims
from ..worker.consumer import Consumer
from ..worker.heartbeat import Heartbeat
from ..worker.options import Options
from ..worker.reaper import Reaper
from ..worker.session import Session
from ..worker.shared_memory import Role, SharedMemory
from ..worker.stack_dumps import StackDump
from ..worker.startup import run_once
from . import schedules
from .clock import Clock
from .due import next_due
from .reaping import by_clock, make_ready, tell
from .transactions import hidden_transaction

logger = logging.getLogger("django_dbqueue")

TRIES = 40  # turns without progress; then what stands in the way is an error
MONTH = 30 * 86_400.0  # seconds
TICK = 0.001  # seconds; a database may round down how long it is until a job is due
# Options of runworker that only a process, or several, can honour.
OF_PROCESSES = (
    *("processes", "threads", "coroutines", "max_time", "max_memory", "health_file", "probe_port"),
    *("shutdown_timeout", "sleep", "reload", "rest", "timeout", "config", "show_config"),
    *("target_wait", "balance", "balance_by", "balance_cooldown", "balance_max_shift"),
    "probe_host",
)


class StillWaiting(AssertionError):
    """Jobs that should have been run are still there."""


class InlineWorker:
    """A worker in the calling thread: it claims, runs, records and reaps, one job after the other.

    Its arguments are those of ``manage.py runworker``; what needs a process of its own (such as
    ``--threads`` or ``--max-memory``) is refused with a ``ValueError``. It ends no job at its time
    to run, a job that kills its process kills the test, those that have killed a worker run like
    others, and jobs share the worker's connection. It looks after no table that it does not serve.
    Use it as a context manager: at the end it gives back what it holds, signs off and closes the
    thread's connections to its databases.

    In a ``TestCase`` it works within the test's transaction (``hidden_transaction``);
    ``ImproperlyConfigured`` inside a block of ``atomic()`` of the test's own.
    """

    def __init__(self, *arguments: str, clock: Clock | None = None) -> None:
        """``clock``: that of ``virtual_clock()``, which ``drain`` moves."""
        self.clock = clock
        self.options, self._is_once = _parse(arguments)
        self.uuid = uuid.uuid4().hex
        timing = self.options.beat_interval, self.options.worker_timeout
        served, name = self.options.serves(), self.options.name
        self.beats = [Heartbeat(self.uuid, *one, *timing, name=name) for one in served.items()]
        self._beaten_at = float("-inf")
        self.reaper = Reaper(self.tables(), timing[1], tell, silent=by_clock(timing[1]))
        self._session = Session(set(served), methodcaller("keep_to_indexes"))
        self.shared = SharedMemory(threads=1, aliases=served)
        self.consumer = Consumer(
            *(self.options, StackDump(), f"{self.uuid}.", self.shared, self.options.max_jobs),
            role=Role.EVERYTHING,
        )

    @property
    def aliases(self) -> list[str]:
        """Of the databases that it serves."""
        return sorted(self.options.serves())

    def tables(self) -> list[Table]:
        """Those that it serves."""
        return [self.options.table(one.model, one.using) for one in self.options.served]

    def __enter__(self) -> Self:
        job_signals.send(signals.worker_started, Worker)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        job_signals.send(signals.worker_stopped, Worker)

    def run(self) -> int:
        """Run what is ready, and what becomes ready by that, until nothing is; how many jobs.
        Schedules that are due enqueue first."""
        before = self.shared.jobs
        if not self._is_once:
            with hidden_transaction():
                schedules.fire(self.aliases)
        with hidden_transaction(), workers_own():
            if self._is_once:
                return run_once(self.options)
            self.beat()
            self.reap()
            self.work()
            self.reap()
        return self.shared.jobs - before

    def drain(self, within: float = MONTH) -> int:
        """Run also what is delayed: the clock goes to the next instant at which a job is due, again
        and again, and stops on the way at the ticks of schedules, which it does not wait for; how
        many jobs. ``StillWaiting`` where that goes on for ``within`` seconds."""
        clock = self._clock()
        end, count = clock.seconds() + within, self.run()
        while not self._has_enough() and (until_due := self._until_due()) is not None:
            if clock.seconds() + until_due > end:
                raise StillWaiting(f"jobs are delayed, or wait for their rate, beyond {within:g} s")
            clock.move(max(TICK, _sooner(until_due, self._until_tick()) or 0))
            count += self.run()
        return count

    def run_for(self, seconds: float) -> int:
        """What a worker would do in that time: the clock goes on by so much, delayed jobs run and
        schedules tick on the way, also those that the code declares; how many jobs."""
        clock = self._clock()
        end = clock.now + timedelta(seconds=check_seconds(seconds, "seconds", MAX_SECONDS))
        with hidden_transaction():
            schedules.begin(self.aliases)
        count = self.run()
        while (wait := _sooner(self._until_due(), self._until_tick())) is not None:
            step = timedelta(seconds=max(TICK, wait))
            if clock.now + step > end:
                break
            clock.now += step
            count += self.run()
        clock.now = end
        return count + self.run()

    def _clock(self) -> Clock:
        if self.clock is None:
            raise ValueError("this moves a clock: InlineWorker(..., clock=clock)")
        return self.clock

    def _until_due(self) -> float | None:
        """Seconds until the next job of its own is, if any is delayed or waits for its rate."""
        moves = [next_due(self.options, one) for one in self.options.served]
        waits = None if self._has_enough() else self.consumer.claimer.gate.waits
        return _sooner(*moves, waits)

    def _until_tick(self) -> float | None:
        return schedules.due_in(self.aliases)

    # Its parts, one at a time: each until it meets with no error of the database.

    def beat(self) -> None:
        """Others can see it; nothing is claimed before."""
        for _ in _tries("beat"):
            self._beaten_at = time.monotonic()
            if None not in [one.beat({}) for one in self.beats]:
                break
        for one in self.beats:
            self.shared.beat(one.alias, time.monotonic(), one.last.epoch)

    def reap(self) -> None:
        """Promote all that is due, and give back what is over its time or whose worker is gone;
        archive and prune."""
        for _ in _tries("reap"):
            self.reaper.clean_at.clear()
            # A test may set the clock back, or a job's time.
            self.reaper.lows.clear()
            try:
                self._session.prepare()
                # A job that leaves a transaction open costs the thread its connection.
                self.reaper.tables = self.tables()
                make_ready(self.reaper)
            except Error as error:
                self._session.recover(error)
            else:
                return

    def work(self) -> None:
        """Claim, run and record until nothing is ready, as far as can be seen."""
        claimer, idle = self.consumer.claimer, 0
        while idle < TRIES and not self._has_enough():
            claimer.scheduler.look_now()
            had_work, has_run = self.claim(), False
            while (item := self.consumer.buffer.poll()) is not None:
                self.take(item)
                has_run = True
            self.record()
            if claimer.gate.waits and not has_run:
                return  # only time helps
            is_sure = claimer.is_idle and not claimer.backoff.failures
            if is_sure and not (had_work or claimer.reconciler.unsure):
                return
            idle = 0 if had_work else idle + 1

    def _has_enough(self) -> bool:
        """Whether as many were run as may be: of what is claimed some expire, or wait to start."""
        claimer, waiting = self.consumer.claimer, len(self.consumer.in_hand() or ())
        if (most := self.options.max_jobs) is not None and claimer.left == 0:
            claimer.left = max(0, most - self.shared.jobs - waiting)
        return claimer.left == 0 and not waiting

    def claim(self) -> bool:
        """One turn of the claimer; whether it, or what came before, left work to do."""
        self.consumer.claim_turn()
        return bool(self.consumer.buffer.under_way or self.consumer.finisher.pending)

    def take(self, item: Item) -> None:
        """Run what the runners take at once; they start nothing while beats are missing."""
        if time.monotonic() - self._beaten_at >= self.options.beat_interval:
            self.beat()
        self.consumer.runners[0].take(item)

    def record(self) -> None:
        """Write the outcomes; those of a table that was locked are tried again at once."""
        finisher = self.consumer.finisher
        for _ in _tries("record"):
            finisher.retry_locked_at = 0.0
            if finisher.pending:
                finisher.flush()
                self.consumer.finish_turn()
            if not finisher.pending:
                return

    def sign_off(self) -> None:
        """Give back what is claimed, and write that it has stopped."""
        for _ in _tries("sign_off"):
            try:
                self._session.prepare()
                self.consumer.claimer.give_back()
                self.consumer.claimer.gate.close()
                if not self._has_recovered():
                    continue
                for one in self.beats:
                    one.sign_off("the test is over")
            except Error as error:
                self._session.recover(error)
            else:
                self.consumer.finisher.end()
                return

    def _has_recovered(self) -> bool:
        """Whether nothing is claimed any more, by the means by which a supervisor gives back what
        a child leaves."""
        recovery = Recovery(self.tables(), self._session, tell)
        recovery.waiting.append(AbandonedClaims(f"{self.uuid}."))
        recovery.turn()
        return not recovery.waiting

    def close(self) -> None:
        """Give back what is claimed, sign off, and close the connections."""
        try:
            with hidden_transaction(), workers_own():
                self.sign_off()
        finally:
            self.consumer.close()
            for one in self.beats:
                if not connections[one.alias].in_atomic_block:
                    connections[one.alias].close()


def _sooner(*waits: float | None) -> float | None:
    """The shortest; None where there is none."""
    return min((one for one in waits if one is not None), default=None)


def _tries(step: str) -> Iterator[int]:
    """As many as a step has until it works; ``StillWaiting`` after the last one."""
    yield from range(TRIES)
    raise StillWaiting(f"{step} did not work {TRIES} times: see the log")


def _parse(arguments: tuple[str, ...]) -> tuple[Options, bool]:
    """The options, and whether one job is to be run."""
    command = Command()
    parser: ArgumentParser = command.create_parser("manage.py", "runworker")
    given: dict[str, Any] = vars(parser.parse_args(arguments))
    for name in OF_PROCESSES:
        if given[name] not in {None, False}:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} needs a process: start manage.py runworker")
    # Whatever the settings say.
    given |= {"processes": ProcessRange(1, 1), "threads": 1, "coroutines": 0, "balance": "off"}
    return command.options(given), given["once"]
