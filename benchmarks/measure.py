"""One drain: fill the queue, let the workers empty it, check every job, work out the rate.

The rate is all jobs over the time from the first start to the last committed completion, by the
rows' own timestamps. Where a queue keeps none, the first start is the first mark, and the last
completion is the moment when a watcher in the contestant's environment saw that nothing is left.
So the workers' start is not in the rate, and while they work nobody asks the database anything
else: that all jobs have run is seen in the marks.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.adapters import URL_VARIABLE, WORKER_VARIABLE, Result
from benchmarks.contestants import Contestant, NoResult, end
from benchmarks.inside import LOOK, READY
from benchmarks.marks import VARIABLE, Marks

STALLED = 60.0  # seconds without a step forward; slow is a result, standing still is none
END = 40.0  # seconds for a worker to stop

Processes = list["subprocess.Popen[bytes]"]


def environment(url: str, marks: Path) -> dict[str, str]:
    return os.environ | {URL_VARIABLE: url, VARIABLE: str(marks)}


def drain(contestant: Contestant, url: str, jobs: int, workers: int, folder: Path) -> float:
    """Jobs per second; ``NoResult`` when any was lost or ran twice."""
    path, logs = folder / "marks", [folder / f"worker{n}.log" for n in range(workers)]
    env = environment(url, path)
    contestant.ask(env, "fill", jobs)
    marks = Marks.create(path, jobs)
    with ExitStack() as started:
        watcher = start_watcher(contestant, env, jobs, folder / "watcher.log", started)
        processes: Processes = []
        for number, log in enumerate(logs):
            numbered = env | {WORKER_VARIABLE: str(number)}
            processes.append(contestant.start(numbered, log, "work"))
            started.callback(end, processes[-1], END)
        try:
            wait_for(processes, lambda: marks.started, jobs)
            seen = answer(watcher, processes, folder / "watcher.log")
        except NoResult as problem:
            tails = "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)
            raise NoResult(f"{problem}\n{tails}") from None
    # Only now, when nothing of it is left that could run a job once more.
    return rate(jobs, marks, Result(**contestant.ask(env, "result", jobs)), seen)


def start_watcher(
    contestant: Contestant, env: dict[str, str], jobs: int, log: Path, started: ExitStack
) -> "subprocess.Popen[bytes]":
    """Start the watcher, and wait until it is at rest."""
    watcher = contestant.start(env, log, "watch", jobs)
    started.callback(end, watcher, END)
    wait_for([watcher], lambda: int(READY in log.read_text(errors="replace").splitlines()), 1)
    return watcher


def answer(watcher: "subprocess.Popen[bytes]", workers: Processes, log: Path) -> float:
    """When the watcher saw the last completion."""
    deadline = time.monotonic() + STALLED
    while watcher.poll() is None:
        check(workers)
        if time.monotonic() > deadline:
            raise NoResult(f"all jobs ran, but not all are done {STALLED:g} s later")
        time.sleep(LOOK)
    if watcher.returncode:
        raise NoResult(f"watch failed:\n{log.read_text(errors='replace')[-2000:]}")
    return float(json.loads(log.read_text().splitlines()[-1]))


def wait_for(processes: Processes, count: Callable[[], int], jobs: int) -> None:
    reached, since = 0, time.monotonic()
    while (now := count()) < jobs:
        if now > reached:
            reached, since = now, time.monotonic()
        check(processes)
        if time.monotonic() - since > STALLED:
            raise NoResult(f"no step forward for {STALLED:g} s, {now} of {jobs} jobs ran")
        time.sleep(LOOK)


def check(processes: Processes) -> None:
    for process in processes:
        if process.poll() is not None:
            raise NoResult(f"a process ended too early, with {process.returncode}")


def rate(jobs: int, marks: Marks, result: Result, seen: float) -> float:
    once = marks.count(1)
    if once != jobs or result.done != jobs:
        raise NoResult(
            f"{jobs} jobs: {result.done} done, {once} ran once, {marks.count(0)} never, "
            f"{marks.started - once} more than once"
        )
    return jobs / (seen - marks.first if result.seconds is None else result.seconds)
