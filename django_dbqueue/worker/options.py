"""What a worker is told (option > environment > settings > default), and when that lets it stop."""

import os
import time
from collections.abc import Container
from dataclasses import dataclass, replace
from typing import TypedDict

from django.db import connections

from ..backoff import Backoff
from ..conf import conf
from ..lifecycle.policy import policy_of
from ..lifecycle.table import Table, is_coroutine, table_of
from ..models import Job
from .served import Served

# A slip of the finger shall not fork until the host stands still.
COUNTS = {
    "processes": (1, 1000),
    "threads": (1, 1000),
    "batch_size": (1, 100_000),
    "coroutines": (0, 10_000),
    "probe_port": (0, 65_535),
}
REAP_SECONDS_MIN = 0.01
EXIT_STOPPED = 0
EXIT_LIMIT_REACHED = 12  # start it again


@dataclass(frozen=True)
class Options:
    """The options of ``runworker``; times in seconds."""

    served: tuple[Served, ...]
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
    probe_port: int = 0  # where a process answers HTTP; 0 = nowhere
    probe_host: str = "127.0.0.1"
    tries: int | None = None
    backoff: Backoff | None = None
    beat_interval: float = 2
    worker_timeout: float = 10
    reap_interval: float = 1
    parent: int | None = None  # the pid of the process that it ends with

    def __post_init__(self) -> None:
        for name, (least, most) in COUNTS.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(
                    f"{name} must be at least {least} and at most {most}, not {getattr(self, name)}"
                )
        if self.reap_interval < REAP_SECONDS_MIN:
            raise ValueError(
                f"REAP_INTERVAL must be at least {REAP_SECONDS_MIN:g} seconds, "
                f"not {self.reap_interval:g}"
            )
        for name in ("sleep", "shutdown_timeout"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0 seconds, not {getattr(self, name):g}")
        if self.max_time is not None and self.max_time <= 0:
            raise ValueError(f"max_time must be more than 0 seconds, not {self.max_time:g}")
        if self.beat_interval <= 0:
            raise ValueError(
                f"BEAT_INTERVAL must be more than 0 seconds, not {self.beat_interval:g}"
            )
        # Else one late beat would make a worker look dead.
        if self.worker_timeout <= 2 * self.beat_interval:
            raise ValueError(
                f"WORKER_TIMEOUT ({self.worker_timeout:g} s) must be more than twice "
                f"BEAT_INTERVAL ({self.beat_interval:g} s)"
            )

    def serves(self) -> dict[str, list[str]]:
        """By database alias, the names of what is served there."""
        names: dict[str, list[str]] = {}
        for one in sorted(self.served, key=str):
            names.setdefault(one.using, []).append(str(one))
        return names

    @property
    def apart(self) -> tuple[str, ...]:
        """The databases that have children of their own, so that none waits for another. Where
        jobs are counted, or nothing may be ready anywhere, each child looks at all of them."""
        aliases = sorted(self.serves())
        is_lasting = self.max_jobs is None and self.stop_when_empty is None
        return tuple(aliases) if is_lasting and len(aliases) > 1 else ()

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
        """A queue table with this worker's own tries and backoff."""
        table = table_of(model, using)
        if self.tries is None and self.backoff is None:
            return table
        policy = replace(
            table.policy,
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
        """How many jobs each child may run."""
        processes, most = self.options.processes, self.options.max_jobs
        if most is None:
            return [None] * processes
        parts = [most // processes + (n < most % processes) for n in range(processes)]
        return [part for part in parts if part]


def timing() -> dict[str, float]:
    """The worker's clockwork, which has no command line options."""
    return {**beat_timing(), "reap_interval": conf["REAP_INTERVAL"]}


class BeatTiming(TypedDict):
    """In seconds."""

    beat_interval: float
    worker_timeout: float


def beat_timing() -> BeatTiming:
    return {"beat_interval": conf["BEAT_INTERVAL"], "worker_timeout": conf["WORKER_TIMEOUT"]}
