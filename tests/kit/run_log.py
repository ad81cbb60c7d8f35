"""What jobs noted in their log file, read back as runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.kit.processes import lines

UNWRITTEN = 0.5  # seconds that the outcome of an ended job may wait for others, and some room


@dataclass
class Run:
    """One run of a job; times by the host's monotonic clock, ``end`` None if it was cut off."""

    key: int
    start: float
    pid: int
    thread: int
    crashes: int
    end: float | None = None

    def overlaps(self, other: Run) -> bool:
        """Whether both went on in the same process at the same time."""
        if self.pid != other.pid or self is other:
            return False
        mine, its = self.end or float("inf"), other.end or float("inf")
        return self.start < its and other.start < mine


def events(log: str) -> Iterator[tuple[str, int, float, int, int, int]]:
    """(event, key, time, pid, thread, crashes) of every whole line."""
    for line in lines(log):
        event, key, at, pid, thread, crashes = line.split()
        yield event, int(key), float(at), int(pid), int(thread), int(crashes)


def runs(log: str) -> dict[int, list[Run]]:
    """The runs of each job, in the order of their starts."""
    found: dict[int, list[Run]] = defaultdict(list)
    open_runs: dict[tuple[int, int, int], Run] = {}
    for event, key, at, pid, thread, crashes in events(log):
        if event == "start":
            run = open_runs[key, pid, thread] = Run(key, at, pid, thread, crashes)
            found[key].append(run)
        elif event == "end":
            open_runs.pop((key, pid, thread)).end = at
    return found


def count(log: str, event: str) -> int:
    return sum(name == event for name, *_ in events(log))


def was_cut_off(run: Run, deaths: dict[int, float]) -> bool:
    """Whether its process died while it ran, or before its outcome can have been written."""
    died = deaths.get(run.pid)
    return died is not None and (run.end is None or died - run.end < UNWRITTEN)
