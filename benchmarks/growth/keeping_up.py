"""Whether finished jobs are archived and pruned as fast as others come, while a snapshot is open.

The archive is as long as what comes meanwhile: for each job that ends, the oldest archived one is
over age. So prune takes rows from one end of the millions, and archive puts rows to the other.
"""

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median, quantiles

from benchmarks import stopwatch
from benchmarks.contestants import ROOT, NoResult, end
from benchmarks.growth import ARCHIVE_VARIABLE, PRUNE_VARIABLE
from benchmarks.marks import SENT_VARIABLE, Marks
from benchmarks.measures import END, Place, wait_for
from benchmarks.stopwatch import VARIABLE

MODE = "full, default"
SETTLE = 5.0  # seconds
PERIOD = 60.0  # seconds, from one line to the next
YOUNGEST = 60  # seconds that a job stays in an archive that was empty
BEHIND_MAX = 60.0  # seconds; what comes within them may wait, or be over age
TIMED = ("claim", "look", "next_moves", "archive", "prune")


@dataclass(frozen=True)
class Minute:
    """What was seen at the end of one, and how long statements took in it, in milliseconds."""

    arrived: int
    waiting: int
    over_age: int
    is_held: bool
    times: dict[str, tuple[float, float]]

    @property
    def behind(self) -> int:
        return max(self.waiting, self.over_age)

    def __str__(self) -> str:
        counts = (self.arrived, self.waiting, self.over_age)
        times = (f"{p50:.2f} / {p99:.2f}" for p50, p99 in self.times.values())
        held = "held" if self.is_held else ""
        return f"| {held} | {' | '.join([*(f'{one:,}' for one in counts), *times])} |"


HEAD = (
    f"| snapshot | arrived | to archive | over age | {', ms | '.join(TIMED)}, ms (p50 / p99) |"
    f"\n|---|---:|---:|---:|{'---:|' * len(TIMED)}"
)


def keep_up(place: Place, minutes: float, rate: float) -> bool:
    """Print what happens, minute by minute; whether it kept up, and ran each job once."""
    jobs, periods = round(minutes * 60 * rate), max(4, round(minutes * 60 / PERIOD))
    place.ask(MODE, "fill", 0)
    started, sent = place.new_marks(jobs), Marks.create(place.folder / "sent", jobs)
    log = place.folder / f"times-{place.name}"
    log.unlink(missing_ok=True)
    prune_after = max(YOUNGEST, math.ceil(place.ask(MODE, "oldest")))
    env = {VARIABLE: str(log), ARCHIVE_VARIABLE: "0", PRUNE_VARIABLE: str(prune_after)}
    print(HEAD, flush=True)
    found: list[Minute] = []
    with place.worker(MODE, env):
        time.sleep(SETTLE)
        words = ("arrive", rate, jobs)
        with inside(place, *words, **{SENT_VARIABLE: str(place.folder / "sent")}):
            for is_held in held(place, periods, minutes * 60 / periods):
                since = time.monotonic() - minutes * 60 / periods
                waiting, over_age = place.ask(MODE, "behind", prune_after)
                arrived = sent.started - sum(one.arrived for one in found)
                times = {name: percentiles(stopwatch.times(log, name, since)) for name in TIMED}
                found.append(Minute(arrived, waiting, over_age, is_held, times))
                print(found[-1], flush=True)
        wait_for(started, sent.started)
    return verdict(place.name, found, (started, sent), rate)


def held(place: Place, periods: int, seconds: float) -> Iterator[bool]:
    """Whether a snapshot was held open, period by period: in the middle half of them."""
    first, last = periods // 4, periods - periods // 4
    began = time.monotonic()
    with ExitStack() as stack:
        for number in range(periods):
            if number == first:
                stack.enter_context(inside(place, "hold"))
            time.sleep(max(0.0, began + (number + 1) * seconds - time.monotonic()))
            yield first <= number < last
            if number == last - 1:
                stack.close()


@contextmanager
def inside(place: Place, verb: str, *arguments: object, **extra: str) -> Iterator[None]:
    """A verb of ``inside.py`` in the background, ended where it has not ended by itself."""
    command = [sys.executable, "-m", place.module, MODE, verb, *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=place.env | extra, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
        if process.poll():
            raise NoResult(f"{verb} failed, with {process.returncode}")
    finally:
        end(process, END)


def percentiles(found: list[float]) -> tuple[float, float]:
    """The 50th and the 99th."""
    if len(found) < 2:
        return math.nan, math.nan
    cuts = quantiles(found, n=100, method="inclusive")
    return cuts[49], cuts[98]


def verdict(place: str, found: list[Minute], marks: tuple[Marks, Marks], rate: float) -> bool:
    """Print it; ``NoResult`` where a job was lost, or ran twice."""
    started, sent = marks
    if not sent.started == started.started == started.count(1):
        raise NoResult(
            f"{sent.started} jobs were enqueued, {started.started} ran, {started.count(1)} once"
        )
    worst = max(one.behind for one in found)
    kept_up = worst <= BEHIND_MAX * rate
    without, with_it = (claim_p99(found, is_held) for is_held in (False, True))
    print(
        f"\n{place}: {sent.started:,} jobs, each ran once; "
        f"{'kept up' if kept_up else 'DID NOT KEEP UP'}: at the worst {worst:,} rows behind, "
        f"{worst / rate:.1f} s of arrivals (at most {BEHIND_MAX:g}); a claim's p99 in the middle "
        f"minute {without:.1f} ms, with the snapshot {with_it:.1f} ms",
        flush=True,
    )
    return kept_up


def claim_p99(found: list[Minute], is_held: bool) -> float:
    return median(one.times["claim"][1] for one in found if one.is_held == is_held)
