"""A drain of no-op jobs: its rate, and what each job costs the worker and the server."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.adapters import TRACE_VARIABLE, Result
from benchmarks.contestants import NoResult, end
from benchmarks.marks import Marks
from benchmarks.measures import DEADLINE, END, Place, wait_for
from benchmarks.measures.idle import statements
from benchmarks.processes import cpu_seconds, cpu_seconds_of_server

WRITTEN = 1.5  # seconds, within which the last outcomes are
READY = 3.0  # seconds, within which a worker that has begun sees that there is nothing to do


@dataclass(frozen=True)
class Drained:
    """All jobs over the time from the first claim to the last completion; the statements, and the
    microseconds of CPU of all workers and of the server, for each job."""

    rate: float
    statements: float
    cpu: float
    server: float


def drained(place: Place, mode: str, jobs: int, workers: int = 1) -> Drained:
    """By so many workers that were idle before; ``NoResult`` when a job was lost or ran twice."""
    place.ask(mode, "fill", 0)
    marks, trace = place.new_marks(jobs), place.folder / "trace"
    trace.unlink(missing_ok=True)
    with started(place, mode, workers, trace) as sessions:
        wait_for_workers(place, mode, workers)
        time.sleep(READY)
        begun, used = statements(place, trace), cpu(sessions)
        with ThreadPoolExecutor() as pool:
            enqueued = pool.submit(cpu_at_first, marks, place.ask(mode, "server"))
            place.ask(mode, "burst", jobs)
            server, before = enqueued.result()
        wait_for(marks, jobs)
        time.sleep(WRITTEN)
        served = cpu_seconds_of_server(server) - before if server else 0.0
        asked, used = statements(place, trace) - begun, cpu(sessions) - used
    result = Result(**place.contestant(mode).ask(place.env, "result", jobs))
    if not result.done == marks.count(1) == jobs or not result.seconds:
        raise NoResult(f"{result.done} of {jobs} jobs are done, {marks.count(1)} ran once")
    return Drained(jobs / result.seconds, asked / jobs, used / jobs * 1e6, served / jobs * 1e6)


def cpu_at_first(marks: Marks, server: int) -> tuple[int, float]:
    """The server's pid, and what it had used when the first job started."""
    wait_for(marks, 1)
    return server, cpu_seconds_of_server(server) if server else 0.0


@contextmanager
def started(place: Place, mode: str, workers: int, trace: Path) -> Iterator[list[int]]:
    """The sessions of so many workers."""
    env = place.env | ({TRACE_VARIABLE: str(trace)} if place.name == "sqlite" else {})
    with ExitStack() as stack:
        sessions = []
        for number in range(workers):
            log = place.folder / f"worker{number}.log"
            process = place.contestant(mode).start(env, log, "work")
            stack.callback(end, process, END)
            sessions.append(process.pid)
        yield sessions


def wait_for_workers(place: Place, mode: str, workers: int) -> None:
    """Until all of them have said that they live."""
    deadline = time.monotonic() + DEADLINE
    while place.ask(mode, "workers") < workers:
        if time.monotonic() > deadline:
            raise NoResult(f"not all workers have begun within {DEADLINE:g} s")


def cpu(sessions: list[int]) -> float:
    return sum(sum(cpu_seconds(one).values()) for one in sessions)
