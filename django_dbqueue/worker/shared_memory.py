"""Memory that a supervisor shares with one child: what it runs, and whether the beats go on."""

import mmap
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

LABEL_BYTES_MAX = 16_000  # of a slot
SEPARATOR = "\x1f"
WORD_BYTES = 8  # a word that is aligned is written, and read, as a whole
PAUSED, EXIT_STATUS, STUCK, TAKEN, SHARED, ALONE = range(6)
HEAD_WORDS = 6
# Of each database.
EPOCH, BEATEN_AT = range(2)
BEAT_WORDS = 2
# The deadline (0 = idle), the start, the thread, the jobs so far, the label's length; the label.
DEADLINE, STARTED_AT, THREAD, JOBS, LENGTH, LABEL = range(6)
SLOT_WORDS = LABEL + LABEL_BYTES_MAX // WORD_BYTES
# What a supervisor may say to a child, by the pipe between them.
STOP, WRITE_STACKS = b"!", b"?"


class Role(IntEnum):
    """Which jobs a child runs."""

    ORDINARY = 0  # all but suspects
    SHARED = SHARED  # suspects, in several threads
    ALONE = ALONE  # suspects with two crashes, one at a time
    EVERYTHING = -1  # where there is no other process


SACRIFICIAL = (Role.SHARED, Role.ALONE)


class ExitStatus(IntEnum):
    """Why a child leaves in good order; without one it has died."""

    NONE = 0
    ASKED = 1
    EMPTY = 2
    ENOUGH = 3  # it has run as many jobs as it may


@dataclass(frozen=True, slots=True)
class Running:
    """One job that a runner thread has in hand; times are monotonic."""

    using: str
    table: str
    key: str
    deadline: float
    started_at: float
    thread: int


class SharedMemory:
    """One head, the beats on each database, and a slot per runner thread.

    The supervisor writes the epochs, the last good beats and the pause; the child the rest. The
    epoch of a database changes whenever jobs that were claimed there before may have been reaped
    meanwhile.
    """

    def __init__(self, threads: int, aliases: Iterable[str] = ("default",)) -> None:
        self.threads = threads
        self.aliases = tuple(aliases)
        self._beats = {name: HEAD_WORDS + n * BEAT_WORDS for n, name in enumerate(self.aliases)}
        self._slots = HEAD_WORDS + len(self._beats) * BEAT_WORDS
        self._memory = mmap.mmap(-1, (self._slots + threads * SLOT_WORDS) * WORD_BYTES)
        self._times = memoryview(self._memory).cast("d")
        self._numbers = memoryview(self._memory).cast("Q")

    def beat(self, alias: str, at: float, epoch: int) -> None:
        # The epoch first: nobody may see a fresh beat with an old one.
        self._numbers[self._beats[alias] + EPOCH] = epoch
        self._times[self._beats[alias] + BEATEN_AT] = at

    def beaten_at(self, alias: str) -> float:
        return self._times[self._beats[alias] + BEATEN_AT]

    def epoch(self, alias: str) -> int:
        return self._numbers[self._beats[alias] + EPOCH]

    @property
    def missed_since(self) -> float:
        """Of the database that has had no beat for the longest, its last one."""
        return min(map(self.beaten_at, self._beats))

    @property
    def paused(self) -> bool:
        return bool(self._numbers[PAUSED])

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._numbers[PAUSED] = paused

    @property
    def exit_status(self) -> ExitStatus:
        return ExitStatus(self._numbers[EXIT_STATUS])

    @exit_status.setter
    def exit_status(self, exit_status: ExitStatus) -> None:
        self._numbers[EXIT_STATUS] = exit_status

    @property
    def stuck(self) -> int:
        """How many outcomes cannot be recorded for now."""
        return self._numbers[STUCK]

    @stuck.setter
    def stuck(self, count: int) -> None:
        self._numbers[STUCK] = count

    def hand_over(self, role: Role) -> None:
        """A suspect was claimed for a sacrificial child of this role."""
        self._numbers[role] += 1

    def handed_over(self, role: Role) -> int:
        """How many so far."""
        return self._numbers[role]

    @property
    def taken(self) -> int:
        """How many of these a sacrificial child has taken over so far."""
        return self._numbers[TAKEN]

    @taken.setter
    def taken(self, count: int) -> None:
        self._numbers[TAKEN] = count

    @property
    def jobs(self) -> int:
        """How many jobs were started so far."""
        return sum(self._numbers[self._slot(n) + JOBS] for n in range(self.threads))

    def slot(self, thread: int) -> "ThreadSlot":
        first = self._slot(thread)
        part = slice(first, first + SLOT_WORDS)
        text = memoryview(self._memory)[
            (first + LABEL) * WORD_BYTES : (first + SLOT_WORDS) * WORD_BYTES
        ]
        return ThreadSlot(self._times[part], self._numbers[part], text)

    def running(self) -> list[Running]:
        found: list[Running] = []
        for slot in map(self._slot, range(self.threads)):
            deadline, length = self._times[slot + DEADLINE], self._numbers[slot + LENGTH]
            if not deadline:
                continue
            begin = (slot + LABEL) * WORD_BYTES
            text = self._memory[begin : begin + length].decode(errors="replace")
            using, table, *keys = text.split(SEPARATOR)
            started_at, ident = self._times[slot + STARTED_AT], self._numbers[slot + THREAD]
            found += [Running(using, table, key, deadline, started_at, ident) for key in keys]
        return found

    def _slot(self, thread: int) -> int:
        return self._slots + thread * SLOT_WORDS


class ThreadSlot:
    """One runner thread's part of the shared memory, for itself to write."""

    def __init__(
        self, times: "memoryview[float]", numbers: "memoryview[int]", text: "memoryview[int]"
    ) -> None:
        self._times = times
        self._numbers = numbers
        self._text = text

    def start(self, label: bytes, now: float, deadline: float, jobs: int = 1) -> None:
        """``now``: by the monotonic clock; ``label``: the database, the table and the keys, with
        separators."""
        size = len(label)
        if size > LABEL_BYTES_MAX:
            label = label[:LABEL_BYTES_MAX].rpartition(SEPARATOR.encode())[0]
            size = len(label)
        numbers, times = self._numbers, self._times
        self._text[:size] = label
        numbers[LENGTH] = size
        numbers[THREAD] = threading.get_ident()
        numbers[JOBS] += jobs
        times[STARTED_AT] = now
        times[DEADLINE] = deadline

    def extend(self, deadline: float) -> None:
        self._times[DEADLINE] = deadline

    def finish(self) -> None:
        self._times[DEADLINE] = 0.0
