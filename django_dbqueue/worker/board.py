"""Memory that a supervisor shares with one child: what it runs, and whether the beats go on."""

import mmap
from dataclasses import dataclass

TEXT = 16_000  # bytes of a slot's label
SEPARATOR = "\x1f"
WORD = 8  # bytes; a word that is aligned is written, and read, as a whole
HEAD_WORDS = 2  # the epoch, the last good beat (monotonic)
SLOT_WORDS = 2 + TEXT // WORD  # the deadline (monotonic, 0 = idle), the label's length, the label


@dataclass(frozen=True, slots=True)
class Running:
    """One job that a runner thread has in hand."""

    table: str
    key: str
    deadline: float


class Board:
    """One head, written by the supervisor, and a slot per runner thread, written by the child.

    The epoch changes whenever jobs that were claimed before may have been reaped meanwhile.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._memory = mmap.mmap(-1, (HEAD_WORDS + threads * SLOT_WORDS) * WORD)
        self._times = memoryview(self._memory).cast("d")
        self._numbers = memoryview(self._memory).cast("Q")

    def beat(self, at: float, epoch: int) -> None:
        # The epoch first: nobody may see a fresh beat with an old one.
        self._numbers[0] = epoch
        self._times[1] = at

    @property
    def beaten_at(self) -> float:
        return self._times[1]

    @property
    def epoch(self) -> int:
        return self._numbers[0]

    def start(self, thread: int, label: bytes, deadline: float) -> None:
        if len(label) > TEXT:
            label = label[:TEXT].rpartition(SEPARATOR.encode())[0]
        word = self._word(thread)
        begin = (word + 2) * WORD
        self._memory[begin : begin + len(label)] = label
        self._numbers[word + 1] = len(label)
        self._times[word] = deadline

    def extend(self, thread: int, deadline: float) -> None:
        self._times[self._word(thread)] = deadline

    def finish(self, thread: int) -> None:
        self._times[self._word(thread)] = 0.0

    def running(self) -> list[Running]:
        return [job for thread in range(self.threads) for job in self._slot(thread)]

    def _slot(self, thread: int) -> list[Running]:
        word = self._word(thread)
        deadline, length = self._times[word], self._numbers[word + 1]
        if not deadline:
            return []
        begin = (word + 2) * WORD
        text = self._memory[begin : begin + length].decode(errors="replace")
        table, *keys = text.split(SEPARATOR)
        return [Running(table, key, deadline) for key in keys]

    def _word(self, thread: int) -> int:
        return HEAD_WORDS + thread * SLOT_WORDS
