"""Memory that a supervisor shares with one child, where it decides how many there are, or which
queues they serve."""

import mmap
from collections.abc import Iterable
from typing import NamedTuple

from .run_times import RunTimes
from .shared_memory import SEPARATOR, WORD_BYTES

TEXT_BYTES_MAX = 64 * 1024
VERSION, LENGTH, TEXT = range(3)
LINE = "\x1e"


class QueueName(NamedTuple):
    """One queue of a queue table on a database."""

    using: str
    table: str
    queue: str

    def __str__(self) -> str:
        return f"{self.table}:{self.queue}"


class Assignment:
    """Which queues the child leaves to others, and for how long the jobs of each queue ran."""

    def __init__(self) -> None:
        self.times = RunTimes()
        self._memory = mmap.mmap(-1, TEXT * WORD_BYTES + TEXT_BYTES_MAX)
        self._numbers = memoryview(self._memory)[: TEXT * WORD_BYTES].cast("Q")

    @property
    def version(self) -> int:
        """Another one whenever the queues have changed; odd while they do."""
        return self._numbers[VERSION]

    def leave(self, queues: Iterable[QueueName]) -> None:
        """For the supervisor: these are left to others. Where names take more than 64 KiB, the last
        ones are served by all."""
        text = LINE.join(SEPARATOR.join(name) for name in queues).encode(errors="surrogateescape")
        if len(text) > TEXT_BYTES_MAX:
            text = text[:TEXT_BYTES_MAX].rpartition(LINE.encode())[0]
        version = self.version
        # Nobody may take half of the old names and half of the new ones for all.
        self._numbers[VERSION] = version + 1
        begin = TEXT * WORD_BYTES
        self._memory[begin : begin + len(text)] = text
        self._numbers[LENGTH] = len(text)
        self._numbers[VERSION] = version + 2

    def left_to_others(self) -> frozenset[QueueName] | None:
        """For the child; None = just now they change."""
        version = self.version
        begin = TEXT * WORD_BYTES
        text = self._memory[begin : begin + self._numbers[LENGTH]]
        if version % 2 or version != self.version:
            return None
        lines = text.decode(errors="surrogateescape").split(LINE) if text else []
        return frozenset(QueueName(*line.split(SEPARATOR, 2)) for line in lines)
