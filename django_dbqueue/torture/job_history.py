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
        for event in self.events:
            self._add(event)
        for row in rows:
            self.job(row["key"]).row = row
        # When the first job of each claim started: all of them were claimed before.
        self.first_starts: dict[str, int] = {}
        for run in self.runs():
            first = self.first_starts.get(run.owner, run.t)
            self.first_starts[run.owner] = min(first, run.t)

    def job(self, key: Any) -> JobHistory:
        return self.jobs.setdefault(key, JobHistory(key))

    def enqueue_of(self, job: JobHistory) -> Enqueued | None:
        mark = job.runs[0].start["mark"] if job.runs else (job.row or {}).get("mark")
        return self.enqueued.get(str(mark))

    def runs(self) -> Iterable[Run]:
        return (run for job in self.jobs.values() for run in job.runs)

    def rows_by(self, *columns: str) -> dict[tuple[Any, ...], list[Row]]:
        found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in self.rows:
            found[tuple(row[column] for column in columns)].append(row)
        return found

    def _add(self, event: Event) -> None:
        op = event["op"]
        if op == "enqueue":
            self._add_enqueue(event)
        elif op == "start":
            run = Run(event)
            self._open[event["key"], event["owner"], event["pid"]] = run
            self.job(event["key"]).runs.append(run)
        elif op in {"effect", "end"}:
            begun = self._open.get((event["key"], event["owner"], event["pid"]))
            if begun is None or begun.end is not None:
                self.strays.append(event)
            elif op == "end":
                begun.end = event
            else:
                begun.effects.append(event)
        elif op in BY_HAND:
            self.job(event["key"]).by_hand.append(event)
        elif op in ENDS:
            job = self.job(event["key"])
            job.accepted.append(event)
            if op in {"completed", "failed"} and job.run_of(event["owner"]) is None:
                self.strays.append(event)

    def _add_enqueue(self, event: Event) -> None:
        mark = event["mark"]
        if event["type"] == "invoke":
            self.enqueued[mark] = Enqueued(event)
        elif mark not in self.enqueued:
            self.strays.append(event)
        else:
            self.enqueued[mark].kind = event["type"]
            self.enqueued[mark].key = event.get("key")
