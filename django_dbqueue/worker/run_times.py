"""For how long jobs run, queue by queue: children write it into shared memory, where their
supervisor reads it."""

import mmap
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from .. import events
from ..lifecycle.table import Table

QUEUES_MAX = 64  # of a child, that are told apart; the others are counted as one
WORD_BYTES = 8
# Of each queue: its name's hash, the attempts, the seconds that they ran.
NAME, COUNT, SECONDS = range(3)
ENTRY_WORDS = 3
OTHERS = 0  # in place of a hash
HALF_LIFE_SECONDS = 30.0  # after which what a queue's jobs took counts for half


def hash_of(using: str, table: str, queue: str) -> int:
    """Of a queue; never 0."""
    name = "\x1f".join((using, table, queue)).encode(errors="replace")
    return int.from_bytes(blake2b(name, digest_size=WORD_BYTES).digest()) | 1


class RunTimes:
    """What one child has run since it began; any of its threads adds to it."""

    def __init__(self) -> None:
        memory = mmap.mmap(-1, (QUEUES_MAX + 1) * ENTRY_WORDS * WORD_BYTES)
        self._numbers = memoryview(memory).cast("Q")
        self._times = memoryview(memory).cast("d")
        self._entries: dict[tuple[str, str, str], int] = {}
        self._lock = threading.Lock()

    def record(self) -> None:
        """From here on, in a child, whatever runs is added."""
        events.completed.subscribe(self._completed)
        events.failed.subscribe(self._failed)

    def _completed(self, table: Table, done: Sequence[tuple[Any, float]]) -> None:
        # Each of a batch is told the time of all.
        share = len(done) if table.takes_batches else 1
        for queue, times in events.seconds_by_queue(done).items():
            seconds = sum(times) / share
            self.add(table.connection.alias, table.label, queue, seconds, len(times))

    def _failed(self, table: Table, job: Any, _: Exception, seconds: float, *__: object) -> None:
        self.add(table.connection.alias, table.label, job.queue, seconds)

    def add(self, using: str, table: str, queue: str, seconds: float, count: int = 1) -> None:
        with self._lock:
            entry = self._entry((using, table, queue))
            self._numbers[entry + COUNT] += count
            self._times[entry + SECONDS] += seconds

    def _entry(self, name: tuple[str, str, str]) -> int:
        """Where it stands; the first entry is that of all for which there is no room."""
        entry = self._entries.get(name)
        if entry is None:
            if len(self._entries) >= QUEUES_MAX:
                return 0
            entry = self._entries[name] = (len(self._entries) + 1) * ENTRY_WORDS
            self._numbers[entry + NAME] = hash_of(*name)
        return entry

    def all(self) -> Iterator[tuple[int, int, float]]:
        """For the supervisor: each queue's hash, attempts and seconds."""
        for entry in range(0, len(self._numbers), ENTRY_WORDS):
            if count := self._numbers[entry + COUNT]:
                yield self._numbers[entry + NAME], count, self._times[entry + SECONDS]


class Sum(NamedTuple):
    """Of attempts, and of the seconds that they ran."""

    attempts: float = 0.0
    seconds: float = 0.0

    @property
    def mean(self) -> float | None:
        return self.seconds / self.attempts if self.attempts else None


class MeanRunTimes:
    """What a supervisor knows of all its children's run times, those of long ago counting less."""

    def __init__(self) -> None:
        # By child and queue, what was read last.
        self._read: dict[tuple[int, int], tuple[int, float]] = {}
        self._sums: dict[int, Sum] = {}
        self._at = time.monotonic()

    def look(self, children: Iterable[tuple[int, RunTimes]]) -> None:
        """At the living ones, each by its number."""
        now = time.monotonic()
        keep = 0.5 ** ((now - self._at) / HALF_LIFE_SECONDS)
        self._at = now
        self._sums = {name: Sum(*(part * keep for part in one)) for name, one in self._sums.items()}
        read: dict[tuple[int, int], tuple[int, float]] = {}
        for number, times in children:
            for name, count, seconds in times.all():
                before = self._read.get((number, name), (0, 0.0))
                read[number, name] = count, seconds
                known = self._sums.get(name, Sum())
                new = count - before[0], seconds - before[1]
                self._sums[name] = Sum(known.attempts + new[0], known.seconds + new[1])
        self._read = read

    def mean(self, using: str, table: str, queue: str) -> float | None:
        """Seconds that an attempt takes; of all queues, where this one is not known."""
        own = self._sums.get(hash_of(using, table, queue), Sum()).mean
        if own is not None:
            return own
        everything = Sum(*map(sum, zip(*self._sums.values(), strict=True))) if self._sums else Sum()
        return everything.mean
