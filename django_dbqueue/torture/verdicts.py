"""What a check says: settings, violations, verdicts, figures."""

from dataclasses import dataclass, field
from typing import Any

from .history import Event

Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What the project under test had been told; times in seconds."""

    max_attempts: int = 5
    max_crashes: int = 3
    time_to_run: float = 300
    threads: int = 1
    beat_interval: float = 2
    worker_timeout: float = 10
    reap_interval: float = 1
    # How long a claim may wait for its start, and how late an event may be noted.
    buffered: float = 10
    late: float = 2
    # The database's clock and the host's need not tick alike.
    clock: float = 0.05
    # Whether all was to be finished in the end, and finished rows are kept.
    drained: bool = True
    keeps_rows: bool = True


@dataclass(frozen=True)
class Violation:
    """One breach of an invariant, in words, with the events that show it."""

    words: str
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """Whether an invariant held, and where it did not."""

    name: str
    says: str
    violations: list[Violation]

    @property
    def holds(self) -> bool:
        return not self.violations


@dataclass
class Figures:
    """What a run comes to: ``duplicates`` by their cause, ``kills`` by what was hit, seconds from a
    kill to the job's next start, sorted, with and without a living supervisor."""

    jobs: int = 0
    lost: int = 0
    unexpected: int = 0
    duplicates: dict[str, int] = field(default_factory=dict)
    unexplained: int = 0
    overlaps: int = 0
    zombie_writes: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    handover_supervised: list[float] = field(default_factory=list)
    handover_alone: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """All verdicts by name, and the figures."""

    verdicts: dict[str, Verdict]
    figures: Figures

    @property
    def holds(self) -> bool:
        return all(verdict.holds for verdict in self.verdicts.values())

    @property
    def broken(self) -> list[str]:
        """The names of the invariants that did not hold."""
        return [name for name, verdict in self.verdicts.items() if not verdict.holds]


def percentile(seconds: list[float], share: float) -> float | None:
    """The value that ``share`` (0 to 1) of sorted values do not exceed; None of none."""
    if not seconds:
        return None
    return seconds[min(len(seconds) - 1, int(share * len(seconds)))]
