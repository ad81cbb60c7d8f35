"""One drain: fill the queue, let one worker empty it, check every job, work out the rate.

The rate comes from the rows' own timestamps: all jobs, over the time from the first claim to the
last completion. So the worker's start is not in it, and while it works nobody asks the database
anything else: that all jobs have run is seen in the marks.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.adapters import URL_VARIABLE, Result
from benchmarks.contestants import Contestant, NoResult, end
from benchmarks.marks import VARIABLE, Marks

STALLED = 60.0  # seconds without a step forward; slow is a result, standing still is none
LOOK = 0.05  # seconds between looks at the marks
END = 40.0  # seconds for a worker to stop


def environment(url: str, marks: Path) -> dict[str, str]:
    return os.environ | {URL_VARIABLE: url, VARIABLE: str(marks)}


def drain(contestant: Contestant, url: str, jobs: int, folder: Path) -> float:
    """Jobs per second; ``NoResult`` when any was lost or ran twice."""
    path = folder / "marks"
    env = environment(url, path)
    contestant.ask(env, "fill", jobs)
    marks = Marks.create(path, jobs)
    log = folder / "worker.log"
    worker = contestant.start_worker(env, log)

    def done() -> int:
        return Result(**contestant.ask(env, "result")).done

    try:
        wait_for(worker, lambda: marks.started, jobs, LOOK)
        wait_for(worker, done, jobs, LOOK)
    except NoResult as problem:
        raise NoResult(f"{problem}\n{log.read_text(errors='replace')[-2000:]}") from None
    finally:
        end(worker, END)
    # Only now, when nothing of it is left that could run a job once more.
    return rate(jobs, marks, Result(**contestant.ask(env, "result")))


def wait_for(
    worker: "subprocess.Popen[bytes]", count: Callable[[], int], jobs: int, pause: float
) -> None:
    reached, since = 0, time.monotonic()
    while (now := count()) < jobs:
        if now > reached:
            reached, since = now, time.monotonic()
        if worker.poll() is not None:
            raise NoResult(f"the worker exited with {worker.returncode}, {now} of {jobs} jobs done")
        if time.monotonic() - since > STALLED:
            raise NoResult(f"no step forward for {STALLED:g} s, {now} of {jobs} jobs done")
        time.sleep(pause)


def rate(jobs: int, marks: Marks, result: Result) -> float:
    once = marks.count(1)
    if once != jobs or result.done != jobs:
        raise NoResult(
            f"{jobs} jobs: {result.done} done, {once} ran once, {marks.count(0)} never, "
            f"{marks.started - once} more than once"
        )
    return jobs / (result.last_end - result.first_start)
