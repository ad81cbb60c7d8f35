"""Counts how often each job ran, in a file that all processes map into memory.

A mark costs a job about a tenth of a microsecond, needs no flush, and outlives a killed process.
Standard library only: this runs in every contestant's environment.
"""

import mmap
import os
from functools import cache
from pathlib import Path

VARIABLE = "BENCH_MARKS"


class Marks:
    """One byte a job, by the job's number from 0: its runs, up to 255."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    @classmethod
    def create(cls, path: Path, jobs: int) -> "Marks":
        path.write_bytes(bytes(jobs))
        return cls(path)

    def add(self, number: int) -> None:
        self._memory[number] = min(255, self._memory[number] + 1)

    @property
    def started(self) -> int:
        """Jobs that ran at least once."""
        return len(self._memory) - self.count(0)

    def count(self, runs: int) -> int:
        """Jobs that ran so often."""
        return bytes(self._memory).count(runs)


@cache
def _marks() -> Marks:
    return Marks(Path(os.environ[VARIABLE]))


def mark(number: int) -> None:
    """What every no-op job does."""
    _marks().add(number)
