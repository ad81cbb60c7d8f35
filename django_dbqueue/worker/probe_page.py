"""What a worker's probe port tells: the memory that it reads, and the pages that others bring."""

import mmap
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus

from .options import Options

WORD_BYTES = 8
TURNED_AT, PHASE, PAUSED, JOBS, RUNNING, CHILDREN, MEMORY, STUCK = range(8)
HEAD_WORDS = 8


class Phase(IntEnum):
    """How far a worker is."""

    STARTING = 0
    RUNNING = 1
    STOPPING = 2


class ProbePage:
    """The memory: the supervisor writes, the probe reads; times are monotonic."""

    def __init__(self, aliases: Iterable[str]) -> None:
        self.aliases = tuple(aliases)
        memory = mmap.mmap(-1, (HEAD_WORDS + len(self.aliases)) * WORD_BYTES)
        self.times = memoryview(memory).cast("d")
        self.numbers = memoryview(memory).cast("Q")

    @property
    def phase(self) -> Phase:
        return Phase(self.numbers[PHASE])

    @property
    def turned_at(self) -> float:
        return self.times[TURNED_AT]

    def beaten_at(self) -> dict[str, float]:
        """By database, when the last good beat was sent; 0 = none was."""
        return {alias: self.times[HEAD_WORDS + n] for n, alias in enumerate(self.aliases)}

    def note_beat(self, alias: str, at: float) -> None:
        self.times[HEAD_WORDS + self.aliases.index(alias)] = at


@dataclass(frozen=True)
class Answer:
    """To one request."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


# What a page says, given what its header Accept names.
Page = Callable[[str], Answer]
# By path, what makes a page of a worker; called in the process that shows it.
PAGES: dict[str, Callable[[ProbePage, Options], Page]] = {}


def troubles(page: ProbePage, worker_timeout: float) -> list[str]:
    """Why a worker is not ready; [] where it is."""
    if page.phase is Phase.STARTING:
        return ["it starts: it waits for its databases, or for migrations"]
    found = hangs(page, worker_timeout)
    if page.phase is Phase.STOPPING:
        found.append("it stops")
    for alias, at in page.beaten_at().items():
        silent = time.monotonic() - at
        if not at:
            found.append(f"database {alias}: no beat was written yet")
        elif silent > worker_timeout:
            found.append(f"database {alias}: no beat was written for {silent:.0f} s")
    return found


def hangs(page: ProbePage, worker_timeout: float) -> list[str]:
    """Why a worker is not alive; [] where it is, also while it waits for databases."""
    silent = time.monotonic() - page.turned_at
    if page.phase is Phase.STARTING or silent <= worker_timeout:
        return []
    return [f"its supervisor has done nothing for {silent:.0f} s"]
