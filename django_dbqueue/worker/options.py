"""What a worker is told (option > environment > settings > default), and when that lets it stop."""

import os
import time
from collections.abc import Container
from dataclasses import dataclass, field, replace
from typing import TypedDict

from django.db import connections

from ..backoff import Backoff
from ..conf import code_version, conf, contradiction
from ..conf.bounds import PROCESSES_MAX, ProcessRange, Range, seconds
from ..conf.queue_order import IN_TURN, QueueOrder, refuse_odd
from ..lifecycle.policy import MAX_SECONDS, policy_of
from ..lifecycle.table import Table, is_coroutine, table_of
from ..models import Job
from .scaling_options import ScalingOptions
from .served import Served

NAME_MAX = 100  # characters
# Of each setting with one of these names it has the bounds.
OF_SETTINGS = ("threads", "batch_size", "coroutines", "probe_port", "probe_host", "sleep")
OF_CLOCKWORK = ("shutdown_timeout", "beat_interval", "worker_timeout", "reap_interval")
WITHOUT_OPTION = {"beat_interval", "worker_timeout", "reap_interval"}
EXIT_STOPPED = 0
EXIT_LIMIT_REACHED = 12  # start it again


@dataclass(frozen=True)
class Options:
    """The options of ``runworker``; times in seconds."""

    served: tuple[Served, ...]
    queue_order: QueueOrder = IN_TURN
    processes: int = 1
    threads: int = 1
    # At once in each child, next to its threads; 0 = jobs that are coroutines run in the threads.
    coroutines: int = 0
    batch_size: int = 10
    batch_grows: bool = True
    sleep: float = 0.5
    shutdown_timeout: float = 30
    # Seconds without a ready job after which to stop.
    stop_when_empty: float | None = None
    max_jobs: int | None = None
    max_time: float | None = None
    max_memory: int | None = None  # MB
    health_file: str | None = None
    force: bool = False  # in spite of a pause of everything
    name: str = ""
    rest: float = 0.0  # of each thread after a job
    timeout: int | None = None  # time to run of jobs that have none of their own
    probe_port: int = 0  # where a process answers HTTP; 0 = nowhere
    probe_host: str = "127.0.0.1"
    tries: int | None = None
    backoff: Backoff | None = None
    beat_interval: float = 2
    worker_timeout: float = 10
    reap_interval: float = 1
    parent: int | None = None  # the pid of the process that it ends with
    scaling: ScalingOptions = field(default_factory=ScalingOptions)

    def __post_init__(self) -> None:
        self._check_jobs()
        code_version(), conf["QUEUES"]  # raises where it is none
        for name in (*OF_SETTINGS, *OF_CLOCKWORK):
            shown_name = name.upper() if name in WITHOUT_OPTION else name
            conf.judge(name.upper(), getattr(self, name), shown_name)
        self._check_range("processes", self.processes, Range(1, PROCESSES_MAX))
        self._check_range("rest", self.rest, seconds())
        if self.max_time is not None and self.max_time <= 0:
            raise ValueError(f"max_time must be more than 0 seconds, not {self.max_time:g}")
        if problem := contradiction(self.beat_interval, self.worker_timeout):
            raise ValueError(problem)

    def _check_range(self, name: str, value: float, bounds: Range) -> None:
        try:
            bounds.check(value)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None

    def _check_jobs(self) -> None:
        if self.name:
            refuse_odd(self.name, "name")
        if len(self.name) > NAME_MAX:
            raise ValueError(f"name has {len(self.name)} characters; the limit is {NAME_MAX}")
        if self.timeout is not None and not 1 <= self.timeout <= MAX_SECONDS:
            raise ValueError(
                f"timeout must be at least 1 and at most {MAX_SECONDS} seconds, not {self.timeout}"
            )
        if self.rest and self.coroutines:
            raise ValueError("rest is for threads: it does not go with coroutines")

    def serves(self) -> dict[str, list[str]]:
        """By database alias, the names of what is served there."""
        names: dict[str, list[str]] = {}
        for one in sorted(self.served, key=str):
            names.setdefault(one.using, []).extend(one.names())
        return names

    @property
    def apart(self) -> tuple[str, ...]:
        """The databases that have children of their own, so that none waits for another. Where
        jobs are counted, or nothing may be ready anywhere, each child looks at all of them."""
        aliases = sorted(self.serves())
        return tuple(aliases) if self.is_lasting and len(aliases) > 1 else ()

    @property
    def is_lasting(self) -> bool:
        """Whether it works on until it is told to stop."""
        return self.max_jobs is None and self.stop_when_empty is None

    @property
    def process_range(self) -> ProcessRange:
        """Of each database that has children of its own, or of the worker."""
        return ProcessRange(self.processes, max(self.processes, self.scaling.most or 0))

    @property
    def grows(self) -> bool:
        """Whether it decides how many children it has."""
        return self.process_range.most > self.processes

    @property
    def balances(self) -> bool:
        """Whether queues have children of their own. Not where jobs are counted, or nothing may be
        ready anywhere: then each child looks at all of them."""
        return self.scaling.balance != "off" and self.is_lasting

    @property
    def has_lost_parent(self) -> bool:
        return self.parent is not None and os.getppid() != self.parent

    def only(self, aliases: Container[str]) -> "Options":
        """The same for one child, which serves these databases."""
        return replace(self, served=tuple(one for one in self.served if one.using in aliases))

    def parts(self) -> list["Options"]:
        """The same for the runner threads and for the event loop of a child, if it has one."""
        if not self.coroutines:
            return [self]
        awaited = tuple(one for one in self.served if is_coroutine(one.model))
        others = tuple(one for one in self.served if one not in awaited)
        parts = replace(self, served=others, coroutines=0), replace(self, served=awaited)
        return [part for part in parts if part.served]

    def databases(self) -> list[str]:
        """The aliases that its jobs are in, or write to exactly once."""
        asked = {policy_of(served.model).exactly_once for served in self.served}
        apart = {alias for alias in asked if isinstance(alias, str) and alias in connections}
        return sorted(apart | {served.using for served in self.served})

    def table(self, model: type[Job], using: str) -> Table:
        """A queue table with this worker's own timeout, tries and backoff. A model that has
        ``keeps_time_to_run`` set has time-outs that follow its policy."""
        table = table_of(model, using)
        if self.timeout is None and self.tries is None and self.backoff is None:
            return table
        timeout = None if getattr(model, "keeps_time_to_run", False) else self.timeout
        policy = replace(
            table.policy,
            time_to_run=timeout or table.policy.time_to_run,
            max_attempts=self.tries or table.policy.max_attempts,
            backoff=self.backoff or table.policy.backoff,
        )
        return replace(table, policy=policy)


@dataclass(frozen=True)
class StopReason:
    """A reason in words, and the exit code."""

    reason: str
    code: int = EXIT_STOPPED


REQUESTED = StopReason("requested in its row")
RESTART_REQUESTED = StopReason("restart requested in its row", EXIT_LIMIT_REACHED)
NOTHING_READY = StopReason("nothing is ready")
PARENT_GONE = StopReason("its parent is gone")


class Limits:
    """``--max-jobs``, ``--max-time`` and ``--max-memory`` of a worker, its children included."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._started = time.monotonic()

    def reached(self, memory: int) -> StopReason | None:
        """The limit that is reached; the jobs are counted by the children."""
        longest, most = self.options.max_time, self.options.max_memory
        if longest is not None and time.monotonic() - self._started >= longest:
            return StopReason(f"--max-time: {longest:g} s are over", EXIT_LIMIT_REACHED)
        if most is not None and memory > most * 1024 * 1024:
            used = memory / 1024 / 1024
            return StopReason(
                f"--max-memory: {used:.0f} MB used, {most} allowed", EXIT_LIMIT_REACHED
            )
        return None

    def shares(self) -> list[int | None]:
        """How many jobs each child may run with which it begins."""
        return self._parts()[: self.options.processes]

    def reserve(self) -> list[int | None]:
        """How many each of those may run that may come later, where jobs are counted."""
        return self._parts()[self.options.processes :] if self.options.max_jobs else []

    def _parts(self) -> list[int | None]:
        processes, most = self.options.process_range.most, self.options.max_jobs
        if most is None:
            return [None] * processes
        parts = [most // processes + (n < most % processes) for n in range(processes)]
        return [part for part in parts if part]


def timing() -> dict[str, float]:
    """The worker's clockwork, which has no command line options."""
    return {**beat_timing(), "reap_interval": conf.judged("REAP_INTERVAL")}


class BeatTiming(TypedDict):
    """In seconds."""

    beat_interval: float
    worker_timeout: float


def beat_timing() -> BeatTiming:
    beat, timeout = conf.judged("BEAT_INTERVAL"), conf.judged("WORKER_TIMEOUT")
    return {"beat_interval": beat, "worker_timeout": timeout}
