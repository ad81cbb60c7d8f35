"""Next to pgqueuer, in turn, on PostgreSQL and by one worker each: how soon a job that comes alone
starts, and how many coroutines that wait for 5 ms are done in a second.

    python scripts/servers.py run --postgresql -- python -m benchmarks.beside_pgqueuer [--rounds N]

Pick-up is from the producer's commit to the start of the job, at 10 and at 200 jobs a second that
come at random moments. Prints medians of the rounds; exits 1 if any had no result.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from benchmarks.adapters import NAP_SECONDS
from benchmarks.contestants import POSTGRESQL, Contestant, NoResult, end
from benchmarks.drain import say, url
from benchmarks.marks import SENT_VARIABLE, Marks
from benchmarks.measure import END, drain, environment, wait_for

PICKED_UP = {10: 300, 200: 2_000}  # jobs, by the rate per second
NAPS = 20_000
SETTLE = 5.0  # seconds until a worker that has begun is at rest


class Ours(Contestant):
    """In the environment that we run in."""

    @property
    def python(self) -> str:
        return sys.executable


def contestants(mode: str) -> tuple[Contestant, Contestant]:
    return (
        Ours("django-dbqueue", mode, "dbqueue_beside", POSTGRESQL, NAPS),
        Contestant("pgqueuer", mode, "pgqueuer", POSTGRESQL, NAPS),
    )


def pick_up(one: Contestant, address: str, rate: int, folder: Path) -> Iterator[float]:
    """In milliseconds: p50, p95 and p99."""
    jobs, env = PICKED_UP[rate], environment(address, folder / "marks")
    one.ask(env, "fill", 0)
    started, committed = (Marks.create(folder / name, jobs) for name in ("marks", "sent"))
    worker = one.start(env, folder / "worker.log", "work")
    try:
        time.sleep(SETTLE)
        one.ask(env | {SENT_VARIABLE: str(folder / "sent")}, "pace", jobs, rate)
        wait_for([worker], lambda: started.started, jobs)
    finally:
        end(worker, END)
    waited = [1000 * (started.time(n) - committed.time(n)) for n in range(jobs)]
    cuts = quantiles(waited, n=100, method="inclusive")
    return (cuts[percent - 1] for percent in (50, 95, 99))


def look(one: Contestant, address: str, folder: Path) -> Iterator[tuple[str, float]]:
    """What a contestant is asked in one round."""
    one.ask(environment(address, folder / "marks"), "prepare")
    if one.mode == "naps":
        name = f"coroutines that wait {1000 * NAP_SECONDS:g} ms, a second"
        yield name, drain(one, address, one.jobs, 1, folder)
        return
    for rate in PICKED_UP:
        found = pick_up(one, address, rate, folder)
        for percent, milliseconds in zip(("p50", "p95", "p99"), found, strict=True):
            yield f"pick-up at {rate} jobs/s, {percent}, ms", milliseconds


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    found: dict[str, dict[str, list[float]]] = {}
    has_failed = False
    with tempfile.TemporaryDirectory(prefix="dbqueue-bench-") as name:
        folder = Path(name)
        address = url("postgresql", folder)
        for _ in range(options.rounds):
            for one in [*contestants("default"), *contestants("naps")]:
                try:
                    for figure, value in look(one, address, folder):
                        found.setdefault(figure, {}).setdefault(one.name, []).append(value)
                        say(f"{one.name}: {figure}: {value:,.1f}")
                except NoResult as problem:
                    has_failed = True
                    say(f"{one.label}: NO RESULT: {problem}")
    ours, theirs = (one.name for one in contestants("default"))
    print(f"| | {ours} | {theirs} |")
    print("|---|---:|---:|")
    for figure, by_name in found.items():
        values = (f"{median(by_name.get(who, [float('nan')])):,.1f}" for who in (ours, theirs))
        print(f"| {figure} | {' | '.join(values)} |")
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
