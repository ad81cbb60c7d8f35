"""What a queue table should do, in plain Python: jobs are records in a dict.

It knows the words of the design and nothing of the package.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

READY, CLAIMED, DONE, DELAYED, BURIED = range(5)
TIME_TO_RUN, MAX_ATTEMPTS, MAX_CRASHES, PAUSES = 30, 3, 3, (1, 4)
WORKER_TIMEOUT = 10


@dataclass
class Record:
    """One row; ``errors`` are the names of the exceptions."""

    queue: str
    priority: int
    text: str = ""
    dedup_key: str | None = None
    expires_at: datetime | None = None
    time_to_run: int | None = None
    retry_at: datetime | None = None
    status: int = READY
    owner: str | None = None
    dequeued_time: datetime | None = None
    finished_at: datetime | None = None
    attempts: int = 0
    crashes: int = 0
    losses: int = 0
    errors: list[str] = field(default_factory=list)

    def free(self, status: int, retry_at: datetime | None = None) -> None:
        self.status, self.retry_at = status, retry_at
        self.owner = self.dequeued_time = None

    def take_attempt_back(self) -> None:
        self.attempts = max(0, self.attempts - 1)

    def note(self, error: str) -> None:
        self.errors = [*self.errors, error][-10:]


@dataclass(frozen=True)
class Rules:
    """In what the queue tables of the machine differ."""

    dedup_until: str = "claim"
    has_archive: bool = False
    retention: float = 100
    archive_retention: float = 200


class Oracle:
    def __init__(self, rules: Rules, now: datetime) -> None:
        self.rules, self.now = rules, now
        self.live: dict[Any, Record] = {}
        self.archived: dict[Any, Record] = {}
        self.known: set[Any] = set()
        self.paused: dict[str, datetime | None] = {}
        self.beats: dict[str, datetime] = {}  # of workers that are not signed off

    def after(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)

    def is_past(self, instant: datetime | None, seconds: float = 0) -> bool:
        return instant is not None and instant <= self.after(-seconds)

    def is_paused(self, queue: str) -> bool:
        return queue in self.paused and not self.is_past(self.paused[queue])

    def holds(self, key: Any, owner: str) -> bool:
        found = self.live.get(key)
        return found is not None and (found.status, found.owner) == (CLAIMED, owner)

    def answer(self, key: Any, owner: str, kept: int = CLAIMED) -> str:
        """What a write of this owner meets; ``kept``: the state that it would leave, and its own
        repeated write is none."""
        if key not in self.live:
            return "gone"
        same = (self.live[key].status, self.live[key].owner) == (kept, owner)
        return "written" if same or self.holds(key, owner) else "lost"

    # Moves of one row, which its caller has judged.

    def enqueue(self, key: Any, record: Record) -> None:
        assert key not in self.known, "a key comes twice"
        self.known.add(key)
        self.live[key] = replace(record, status=DELAYED if record.retry_at else READY)

    def twin(self, queue: str, dedup_key: str | None) -> Any:
        name = (queue, dedup_key)
        return next((k for k, r in self.live.items() if (r.queue, r.dedup_key) == name), None)

    def claim(self, queue: str, limit: int, owner: str) -> list[Any]:
        if self.is_paused(queue):
            return []
        ready = [k for k, r in self.live.items() if (r.queue, r.status) == (queue, READY)]
        taken = sorted(ready, key=lambda key: (self.live[key].priority, key))[:limit]
        for key in taken:
            row = self.live[key]
            row.status, row.owner, row.dequeued_time = CLAIMED, owner, self.now
            row.attempts += 1
            if self.rules.dedup_until == "claim":
                row.dedup_key = None
            self.touch(key)
        return taken

    def touch(self, key: Any) -> None:
        row = self.live[key]
        row.retry_at = self.after(row.time_to_run or TIME_TO_RUN)

    def complete(self, key: Any) -> None:
        row = self.live[key]
        row.status, row.finished_at, row.dedup_key = DONE, self.now, None
        row.retry_at = self.after(self.rules.retention)
        if not self.rules.retention:
            del self.live[key]

    def expire(self, key: Any) -> None:
        row = self.live[key]
        self.complete(key)
        self.live[key] = row  # also where others are deleted
        row.dequeued_time = None
        row.take_attempt_back()

    def fail(self, key: Any, error: str, delay: float | None = None) -> None:
        row = self.live[key]
        row.note(error)
        if error == "Bury" or row.attempts >= MAX_ATTEMPTS:
            self.bury(key)
            return
        pause = PAUSES[min(row.attempts, len(PAUSES)) - 1] if delay is None else delay
        row.free(*((DELAYED, self.after(pause)) if pause else (READY,)))

    def release(self, key: Any, delay: float = 0) -> None:
        row = self.live[key]
        row.free(*((DELAYED, self.after(delay)) if delay else (READY,)))
        row.take_attempt_back()

    def crash(self, key: Any) -> None:
        row = self.live[key]
        row.crashes += 1
        row.note("WorkerLost")
        row.take_attempt_back()
        if row.crashes >= MAX_CRASHES:
            self.bury(key)
        else:
            row.free(READY)

    def lose(self, key: Any) -> None:
        """Its whole worker is gone."""
        self.release(key)
        self.live[key].losses += 1

    def bury(self, key: Any) -> None:
        row = self.live[key]
        row.free(BURIED)
        row.finished_at, row.dedup_key = self.now, None

    def kick(self, key: Any) -> None:
        row = self.live[key]
        row.status, row.retry_at, row.finished_at = READY, None, None
        row.attempts = row.crashes = row.losses = 0

    def cancel(self, key: Any) -> None:
        row = self.live.pop(key)
        if self.rules.has_archive:
            row.finished_at = row.finished_at or self.now
            self.archived[key] = row

    # What moves by itself; how many rows.

    def in_state(self, status: int) -> list[Any]:
        """Keys whose row is in a state, and due to leave it."""
        rows = self.live.items()
        return [k for k, r in rows if r.status == status and self.is_past(r.retry_at)]

    def promote(self) -> int:
        due = self.in_state(DELAYED)
        for key in due:
            self.live[key].free(READY)
        return len(due)

    def end_overdue(self) -> int:
        late = self.in_state(CLAIMED)
        for key in late:
            self.fail(key, "TimeToRunExceeded")
        return len(late)

    def claims_of(self, prefix: str) -> list[Any]:
        rows = self.live.items()
        return [k for k, r in rows if r.status == CLAIMED and str(r.owner).startswith(prefix)]

    def reap_silent(self) -> int:
        gone = [w for w, at in self.beats.items() if at < self.after(-WORKER_TIMEOUT)]
        lost = [key for uuid in gone for key in self.claims_of(f"{uuid}.")]
        for key in lost:
            self.lose(key)
        for uuid in gone:
            del self.beats[uuid]
        return len(lost)

    def archive(self) -> int:
        old = self.in_state(DONE) if self.rules.has_archive else []
        for key in old:
            self.cancel(key)
        return len(old)

    def prune(self) -> int:
        place = self.archived if self.rules.has_archive else self.live
        old = self.in_state(DONE)
        if self.rules.has_archive:
            seconds = self.rules.archive_retention
            old = [k for k, r in place.items() if self.is_past(r.finished_at, seconds)]
        for key in old:
            del place[key]
        return len(old)
