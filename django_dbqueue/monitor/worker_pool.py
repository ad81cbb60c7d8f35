"""How many processes a worker has, of which range, and why: what its row says of them."""

from dataclasses import dataclass, field
from typing import Any

SECONDS_MAX = 1e12  # more shows no clock, and some are no JSON


@dataclass(frozen=True)
class PoolDecision:
    """What was decided, in plain English, and how many seconds ago."""

    seconds: float
    text: str


@dataclass(frozen=True)
class WorkerPool:
    """``held``: why there are no more, or ''. ``queues``: with a balance, how many processes each
    has. ``slots``: how many jobs they can run at once."""

    processes: int = 0
    least: int = 0
    most: int = 0
    held: str = ""
    decisions: list[PoolDecision] = field(default_factory=list)
    queues: dict[str, int] = field(default_factory=dict)
    slots: int = 0

    def __str__(self) -> str:
        """``3 of 1-8``, or ``2`` where the number is fixed."""
        if self.least == self.most:
            return f"{self.processes}"
        return f"{self.processes} of {self.least}-{self.most}"


def pool_of(worker: Any) -> WorkerPool:
    """Of a row ``with_ages``; what a hand has written there, and is nonsense, is passed over."""
    given = worker.pool if isinstance(worker.pool, dict) else {}
    numbers = {name: _whole(given.get(name)) for name in ("processes", "least", "most", "slots")}
    since = max(0.0, float(worker.beat_age or 0))
    ones = given.get("decisions")
    decisions = [
        PoolDecision(round(seconds + since, 1), str(one.get("text", "")))
        for one in (ones if isinstance(ones, list) else [])
        if isinstance(one, dict) and (seconds := seconds_of(one.get("seconds"))) is not None
    ]
    queues = given.get("queues")
    named = queues.items() if isinstance(queues, dict) else ()
    return WorkerPool(
        **numbers,
        held=str(given.get("held") or ""),
        decisions=decisions,
        queues={str(name): _whole(count) for name, count in named},
    )


def seconds_of(value: object) -> float | None:
    """None for what only a hand can have written."""
    if not isinstance(value, int | float) or not abs(value) <= SECONDS_MAX:
        return None
    return float(value)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
