"""Judges a history: a pure function from what was noted, and what is left, to verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .history import Event

Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What the project under test had been told; times in seconds."""

    max_attempts: int = 5
    max_crashes: int = 3
    beat_interval: float = 2
    worker_timeout: float = 10
    reap_interval: float = 1
    # How long a claim may wait for its start, and how late an event may be noted.
    buffered: float = 5
    late: float = 2
    # The database's clock and the host's need not tick alike.
    clock: float = 0.05
    # Whether all was to be finished in the end, and finished rows are kept.
    drained: bool = True
    keeps_rows: bool = True


@dataclass(frozen=True)
class Offence:
    """One breach of an invariant, in words, with the events that show it."""

    words: str
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """Whether an invariant held, and where it did not."""

    name: str
    says: str
    offences: list[Offence]

    @property
    def holds(self) -> bool:
        return not self.offences


@dataclass
class Figures:
    """What a run comes to; ``duplicates`` by their cause, hand-overs in seconds, sorted."""

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
    verdicts: dict[str, Verdict]
    figures: Figures

    @property
    def holds(self) -> bool:
        return all(verdict.holds for verdict in self.verdicts.values())


def check(
    events: Sequence[Event],
    rows: Sequence[Row],
    effects: Sequence[Row],
    settings: Settings | None = None,
) -> Report:
    """A verdict per invariant, and figures.

    ``rows``: {place: "live" or "archive", key, mark, queue, status (its label), owner, attempts,
    crashes, errors: list, retry_at_past_seconds: float or None, finished: bool, dedup_key}, all
    rows of both tables; ``effects``: {mark} for each row that jobs wrote in their transactions.
    """
    raise NotImplementedError
