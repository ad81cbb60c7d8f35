"""A history, told job by job."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .history import Event
from .verdicts import Row

NS = 1_000_000_000
ENDS = {"completed", "failed", "buried", "expired", "reaped"}
BY_HAND = {"kick", "bury", "release", "cancel"}


@dataclass
class Run:
    """One start of a job, and what its process noted of it."""

    start: Event
    effects: list[Event] = field(default_factory=list)
    end: Event | None = None

    @property
    def t(self) -> int:
        return int(self.start["t"])

    @property
    def pid(self) -> int:
        return int(self.start["pid"])

    @property
    def who(self) -> str:
        return str(self.start["who"])

    @property
    def owner(self) -> str:
        return str(self.start["owner"])

    def is_open_at(self, t: int) -> bool:
        return self.end is None or self.end["t"] > t


@dataclass
class JobHistory:
    """All that is known of one job."""

    key: Any
    runs: list[Run] = field(default_factory=list)
    accepted: list[Event] = field(default_factory=list)
    by_hand: list[Event] = field(default_factory=list)
    row: Row | None = None

    def ended(self, owner: str, *ops: str) -> list[Event]:
        """The writes that ended a claim, as far as they were noted."""
        return [e for e in self.accepted if e.get("owner") == owner and e["op"] in (ops or ENDS)]

    def hands(self, *verbs: str) -> list[Event]:
        return [event for event in self.by_hand if event["op"] in verbs]

    def has(self, op: str) -> bool:
        return any(event["op"] == op for event in self.accepted)

    def repeats(self) -> Iterator[tuple[Run, Run]]:
        return pairwise(self.runs)

    def run_of(self, owner: str | None) -> Run | None:
        return next((run for run in reversed(self.runs) if run.owner == owner), None)


@dataclass
class Enqueued:
    """One call of enqueue; ``kind`` is invoke as long as it has no answer."""

    invoked: Event
    kind: str = "invoke"
    key: Any = None


class HistoryIndex:
    """All jobs of a history, by key and by mark; ``strays`` follow from nothing."""

    def __init__(self, events: Sequence[Event], rows: Sequence[Row]) -> None:
        self.events = sorted(events, key=lambda event: event["t"])
        self.rows = rows
        self.enqueued: dict[str, Enqueued] = {}
        self.jobs: dict[Any, JobHistory] = {}
        self.strays: list[Event] = []
        self._open: dict[tuple[Any, str, int], Run] = {}
        told = {"enqueue": self._enqueue, "start": self._start, "effect": self._effect}
        told |= {"end": self._end, **dict.fromkeys(ENDS, self._ended)}
        told |= dict.fromkeys(BY_HAND, self._by_hand)
        for event in self.events:
            if event["op"] in told:
                told[event["op"]](event)
        for row in rows:
            self.job(row["key"]).row = row
        self.first_starts = self._first_starts()

    def job(self, key: Any) -> JobHistory:
        return self.jobs.setdefault(key, JobHistory(key))

    def enqueue_of(self, job: JobHistory) -> Enqueued | None:
        mark = job.runs[0].start["mark"] if job.runs else (job.row or {}).get("mark")
        return self.enqueued.get(str(mark))

    def _first_starts(self) -> dict[str, int]:
        """When the first job of each claim started: all of them were claimed before."""
        first: dict[str, int] = {}
        for run in self.runs():
            first[run.owner] = min(first.get(run.owner, run.t), run.t)
        return first

    def runs(self) -> Iterable[Run]:
        return (run for job in self.jobs.values() for run in job.runs)

    def rows_by(self, *columns: str) -> dict[tuple[Any, ...], list[Row]]:
        found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in self.rows:
            found[tuple(row[column] for column in columns)].append(row)
        return found

    def _enqueue(self, event: Event) -> None:
        mark = event["mark"]
        if event["type"] == "invoke":
            self.enqueued[mark] = Enqueued(event)
        elif mark not in self.enqueued:
            self.strays.append(event)
        else:
            self.enqueued[mark].kind = event["type"]
            self.enqueued[mark].key = event.get("key")

    def _start(self, event: Event) -> None:
        run = Run(event)
        self._open[event["key"], event["owner"], event["pid"]] = run
        self.job(event["key"]).runs.append(run)

    def _effect(self, event: Event) -> None:
        run = self._open.get((event["key"], event["owner"], event["pid"]))
        if run is None or run.end is not None:
            self.strays.append(event)
        else:
            run.effects.append(event)

    def _end(self, event: Event) -> None:
        run = self._open.get((event["key"], event["owner"], event["pid"]))
        if run is None or run.end is not None:
            self.strays.append(event)
        else:
            run.end = event

    def _by_hand(self, event: Event) -> None:
        self.job(event["key"]).by_hand.append(event)

    def _ended(self, event: Event) -> None:
        job = self.job(event["key"])
        job.accepted.append(event)
        if event["op"] in {"completed", "failed"} and job.run_of(event["owner"]) is None:
            self.strays.append(event)
