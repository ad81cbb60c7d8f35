"""What a snapshot that is held open costs a claim, while 300 jobs a second come and go.

    python scripts/servers.py run -- python -m benchmarks.growth [--only PLACE]... [--seconds 240]

The database may not clear away what the snapshot could still see, so dead rows gather in front of
the ready ones. Prints, per database, how long claims took before it and in the last third of its
time. Exits 1 if their 99th percentile grew more than threefold, or a job was lost.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

from benchmarks import stopwatch
from benchmarks.contestants import ROOT, NoResult, end
from benchmarks.drain import on_terminate, url
from benchmarks.marks import Marks
from benchmarks.measures import END, Place, ours, wait_for
from benchmarks.measures.inside import SENT_VARIABLE

PLACES = ("mariadb", "postgresql", "sqlite")
MODE = "default"
RATE = 300  # jobs a second
BASE, SETTLE = 20.0, 5.0  # seconds
MOST = 3.0
# The claim is what is promised; the rest is what else the dead rows may slow down.
NAMES = ("claim", "look", "next_moves", "promote")
Span = tuple[float, float]


def grow(place: Place, seconds: float) -> float:
    """How many times the base's 99th percentile a claim takes at the end."""
    times, sent_path = place.folder / f"times-{place.name}", place.folder / "sent"
    # More than there is time for.
    jobs = round(2 * RATE * (SETTLE + BASE + seconds))
    place.ask(MODE, "fill", 0)
    started, sent = place.new_marks(jobs), Marks.create(sent_path, jobs)
    with place.worker(MODE, {stopwatch.VARIABLE: str(times)}):
        time.sleep(SETTLE)
        with inside(place, "pace", RATE, jobs, **{SENT_VARIABLE: str(sent_path)}):
            time.sleep(SETTLE)
            before, after = spans(place, seconds)
        wait_for(started, sent.started)
    return report(place, times, (started, sent), before, after)


def spans(place: Place, seconds: float) -> tuple[Span, Span]:
    """When it was so without a snapshot, and with one that has been open for long."""
    before = span(BASE)
    time.sleep(BASE)
    with inside(place, "hold"):
        time.sleep(seconds * 2 / 3)
        after = span(seconds / 3)
        time.sleep(seconds / 3)
    return before, after


def span(seconds: float) -> Span:
    now = time.monotonic()
    return now, now + seconds


@contextmanager
def inside(place: Place, verb: str, *arguments: object, **extra: str) -> Iterator[None]:
    """A verb of ``inside.py`` in the background, ended where it has not ended by itself."""
    words = [MODE, verb, *map(str, arguments)]
    command = [sys.executable, "-m", "benchmarks.measures.inside", *words]
    process = subprocess.Popen(
        command, cwd=ROOT, env=place.env | extra, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
        if process.poll():
            raise NoResult(f"{verb} failed, with {process.returncode}")
    finally:
        end(process, END)


def report(
    place: Place, times: Path, marks: tuple[Marks, Marks], before: Span, after: Span
) -> float:
    started, sent = marks
    # The last one may have been committed and not noted.
    if started.count(1) not in {sent.started, sent.started + 1}:
        raise NoResult(f"{sent.started} jobs were enqueued, {started.count(1)} ran once")
    print(f"{place.name:<11} {sent.started / (after[1] - before[0] + SETTLE):.0f} jobs/s")
    ratios = {
        name: tell(place, name, *(stopwatch.times(times, name, *one) for one in (before, after)))
        for name in NAMES
    }
    tell(place, "pick-up", *(pick_ups(*marks, *one) for one in (before, after)))
    return ratios["claim"]


def pick_ups(started: Marks, sent: Marks, since: float, until: float) -> list[float]:
    """Milliseconds from the commit to the start, of the jobs that were enqueued in a span."""
    return [
        (started.time(n) - sent.time(n)) * 1000
        for n in range(started.started)
        if since <= sent.time(n) < until
    ]


def tell(place: Place, name: str, before: list[float], after: list[float]) -> float:
    """Print one line; the ratio of the 99th percentiles."""
    if min(len(before), len(after)) < 2:
        print(f"{place.name:<11} {name:<11} too few calls", flush=True)
        return 1.0
    (p50, p99), (later50, later99) = (percentiles(one) for one in (before, after))
    print(
        f"{place.name:<11} {name:<11} p50 {p50:7.2f} -> {later50:7.2f} ms   "
        f"p99 {p99:7.2f} -> {later99:7.2f} ms: {later99 / p99:5.2f} times   "
        f"({len(before)} and {len(after)} calls, longest {max(after):.1f} ms)",
        flush=True,
    )
    return later99 / p99


def percentiles(found: list[float]) -> tuple[float, float]:
    cuts = quantiles(found, n=100, method="inclusive")
    return cuts[49], cuts[98]


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PLACES, help="may be repeated")
    parser.add_argument("--seconds", type=float, default=240, help="for which it is held open")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, on_terminate)
    options = parse(argv)
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="dbqueue-growth-") as folder:
        for name in options.only or PLACES:
            place = Place(name, url(name, Path(folder)), Path(folder))
            ours(MODE).ask(place.env, "prepare")
            worst = max(worst, grow(place, options.seconds))
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
