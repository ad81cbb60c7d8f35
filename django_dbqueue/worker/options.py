"""What a worker is told: option > environment > settings > default."""

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import TypedDict

from django.db import connections

from ..backoff import Backoff
from ..conf import conf
from ..lifecycle.policy import policy_of
from ..lifecycle.table import Table, table_of
from ..models import Job
from .served import Served

# A slip of the finger shall not fork until the host stands still.
MOST = {"processes": 1000, "threads": 1000, "batch_size": 100_000}


MIN_REAP_INTERVAL = 0.01  # seconds


@dataclass(frozen=True)
class Options:
    """The options of ``runworker``; times in seconds."""

    served: tuple[Served, ...]
    processes: int = 1
    threads: int = 1
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
    tries: int | None = None
    backoff: Backoff | None = None
    beat_interval: float = 2
    worker_timeout: float = 10
    reap_interval: float = 1

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            if not 1 <= getattr(self, name) <= most:
                said = f"at least 1 and at most {most}, not {getattr(self, name)}"
                raise ValueError(f"{name} must be {said}")
        check_reap_interval(self.reap_interval)
        for name in ("sleep", "shutdown_timeout"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0 seconds, not {getattr(self, name):g}")
        if self.max_time is not None and self.max_time <= 0:
            raise ValueError(f"max_time must be more than 0 seconds, not {self.max_time:g}")
        check_beat_timing(self.beat_interval, self.worker_timeout)

    def serves(self) -> dict[str, list[str]]:
        """By database alias, the names of what is served there."""
        aliases = {served.using for served in self.served}
        return {
            alias: sorted(str(served) for served in self.served if served.using == alias)
            for alias in aliases
        }

    @property
    def apart(self) -> tuple[str, ...]:
        """The databases that have children of their own, so that none waits for another. Where
        jobs are counted, or nothing may be ready anywhere, each child looks at all of them."""
        aliases = self.serves()
        is_lasting = self.max_jobs is None and self.stop_when_empty is None
        return tuple(sorted(aliases)) if is_lasting and len(aliases) > 1 else ()

    def only(self, aliases: Container[str]) -> "Options":
        """The same for one child, which serves these databases."""
        return replace(self, served=tuple(one for one in self.served if one.using in aliases))

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


def check_reap_interval(seconds: float) -> None:
    """``ValueError`` where a reaper would do nothing else but look."""
    if seconds < MIN_REAP_INTERVAL:
        raise ValueError(
            f"REAP_INTERVAL must be at least {MIN_REAP_INTERVAL:g} seconds, not {seconds:g}"
        )


def check_beat_timing(beat_interval: float, worker_timeout: float) -> None:
    """``ValueError`` where one late beat would make a worker look dead."""
    if beat_interval <= 0:
        raise ValueError(f"BEAT_INTERVAL must be more than 0 seconds, not {beat_interval:g}")
    if worker_timeout <= 2 * beat_interval:
        raise ValueError(
            f"WORKER_TIMEOUT ({worker_timeout:g} s) must be more than twice "
            f"BEAT_INTERVAL ({beat_interval:g} s)"
        )


def timing() -> dict[str, float]:
    """The worker's clockwork, which has no command line options."""
    return {**beat_timing(), "reap_interval": conf["REAP_INTERVAL"]}


class BeatTiming(TypedDict):
    """In seconds."""

    beat_interval: float
    worker_timeout: float


def beat_timing() -> BeatTiming:
    return {"beat_interval": conf["BEAT_INTERVAL"], "worker_timeout": conf["WORKER_TIMEOUT"]}
