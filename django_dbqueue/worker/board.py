"""Memory that a supervisor shares with one child: what it runs, and whether the beats go on."""

import mmap
import struct
import time
from dataclasses import dataclass

HEAD = struct.Struct("dQ")  # the last good beat (monotonic), the epoch
TEXT = 4000
SEPARATOR = "\x1f"
SLOT = struct.Struct(
    f"dH{TEXT}s"
)  # the deadline (monotonic, 0 = idle), length and text of the label


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
        self._memory = mmap.mmap(-1, HEAD.size + threads * SLOT.size)

    def beat(self, epoch: int) -> None:
        HEAD.pack_into(self._memory, 0, time.monotonic(), epoch)

    @property
    def beaten_at(self) -> float:
        return float(HEAD.unpack_from(self._memory)[0])

    @property
    def epoch(self) -> int:
        return int(HEAD.unpack_from(self._memory)[1])

    def start(self, thread: int, label: bytes, deadline: float) -> None:
        if len(label) > TEXT:
            label = label[:TEXT].rpartition(SEPARATOR.encode())[0]
        SLOT.pack_into(self._memory, self._offset(thread), deadline, len(label), label)

    def finish(self, thread: int) -> None:
        struct.pack_into("d", self._memory, self._offset(thread), 0.0)

    def running(self) -> list[Running]:
        return [job for thread in range(self.threads) for job in self._slot(thread)]

    def _slot(self, thread: int) -> list[Running]:
        deadline, length, text = SLOT.unpack_from(self._memory, self._offset(thread))
        if not deadline:
            return []
        table, *keys = text[:length].decode(errors="replace").split(SEPARATOR)
        return [Running(table, key, deadline) for key in keys]

    def _offset(self, thread: int) -> int:
        return HEAD.size + thread * SLOT.size
