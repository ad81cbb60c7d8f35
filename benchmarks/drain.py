"""The drain of no-op jobs: ours, bare SQL and the peers, in turn, on the same servers.

    python scripts/servers.py run --mariadb --postgresql --redis -- python -m benchmarks.drain \\
        [--quick] [--only PLACE]... [--contestant NAME]... [--rounds N] [--workers N] [--scale X]

Prints Markdown tables and writes them and the figures to benchmarks/results/. Exits 1 if any drain
had no result: a worker that stood still, a job that was lost, or one that ran twice.
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.contestants import CONTESTANTS, SQL, Contestant, NoResult
from benchmarks.hot_path import fingerprint
from benchmarks.measure import drain, environment
from benchmarks.report import Comparison, Outcome, page, write

RESULTS = Path(__file__).resolve().parent / "results"
PLACES = ("mariadb", "postgresql", "sqlite", "mysql", "redis")
MEASURED = ("django_dbqueue", ":(glob)benchmarks/**/*.py")
OPTIONAL = frozenset({"mysql"})


def url(place: str, folder: Path) -> str:
    if place == "sqlite":
        return f"sqlite:///{folder / 'bench.sqlite3'}"
    variable = f"DBQUEUE_{place.upper()}_URL"
    if not os.environ.get(variable):
        sys.exit(f"{variable} is not set: see scripts/servers.py")
    return os.environ[variable]


def compare(place: str, options: argparse.Namespace, folder: Path) -> Comparison:
    address = url(place, folder)
    outcomes = [
        Outcome(one, max(1, round(one.jobs * options.scale)))
        for one in CONTESTANTS
        if place in one.on and is_wanted(one, options)
    ]
    env = environment(address, folder / "marks")
    for outcome in outcomes:
        prepare(outcome, env, place)
    for number in range(options.rounds):
        for outcome in (one for one in outcomes if one.versions):
            play(outcome, address, options, folder, f"{place} {number + 1}/{options.rounds}")
    return Comparison(place, outcomes)


def is_wanted(contestant: Contestant, options: argparse.Namespace) -> bool:
    if options.contestant:
        return contestant.adapter in options.contestant
    return not options.quick or contestant.is_ours or contestant.is_bare


def prepare(outcome: Outcome, env: dict[str, str], where: str) -> None:
    try:
        outcome.contestant.ask(env, "prepare")
        outcome.versions = outcome.contestant.ask(env, "versions")
    except NoResult as problem:
        note(outcome, where, problem)


def note(outcome: Outcome, where: str, problem: NoResult) -> None:
    outcome.problems.append(str(problem))
    say(f"{where}  {outcome.contestant.label}: NO RESULT: {problem}")


def play(
    outcome: Outcome, address: str, options: argparse.Namespace, folder: Path, where: str
) -> None:
    label = outcome.contestant.label
    try:
        rate = drain(outcome.contestant, address, outcome.jobs, options.workers, folder)
    except NoResult as problem:
        note(outcome, where, problem)
    else:
        outcome.rates.append(rate)
        say(f"{where}  {label}: {outcome.jobs:,} jobs, each done once, {rate:,.0f}/s")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def about(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "command": options.command,
        "commit": commit(),
        "hot_path": fingerprint(),
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "rounds": options.rounds,
        "workers": options.workers,
    }


def commit() -> str:
    """Of this checkout, with "-dirty" where the package or the benchmarks have other code."""
    try:
        [name] = _git("rev-parse", "--short", "HEAD")
        return f"{name}-dirty" if _git("status", "--porcelain", "--", *MEASURED) else name
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> list[str]:
    ran = subprocess.run(
        ["git", *arguments], cwd=RESULTS.parent.parent, capture_output=True, text=True, check=True
    )
    return ran.stdout.splitlines()


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="ours and bare SQL only")
    add("--only", action="append", choices=PLACES, metavar="PLACE", help="may be repeated")
    add("--contestant", action="append", metavar="ADAPTER", help="only this; may be repeated")
    add("--rounds", type=int, default=3)
    add("--workers", type=int, default=1, help="worker processes at once")
    add("--scale", type=float, default=1, help="factor for the numbers of jobs")
    options = parser.parse_args(argv)
    options.command = " ".join(["python -m benchmarks.drain", *argv])
    return options


def places(options: argparse.Namespace) -> list[str]:
    """MySQL only where it is asked for or a URL names a server."""
    if options.only:
        return [place for place in PLACES if place in options.only]
    given = [p for p in PLACES if p not in OPTIONAL or os.environ.get(f"DBQUEUE_{p.upper()}_URL")]
    return [place for place in given if place in SQL or not options.quick]


def on_terminate(signum: int, _frame: object) -> None:
    # As an exception, so that the worker under way is ended too.
    raise SystemExit(128 + signum)


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, on_terminate)
    options = parse(argv)
    facts = about(options)
    with tempfile.TemporaryDirectory(prefix="dbqueue-bench-") as folder:
        found = [compare(place, options, Path(folder)) for place in places(options)]
    write(RESULTS, "quick" if options.quick else "drain", facts, found)
    print(page(facts, found))
    return int(any(outcome.problems for one in found for outcome in one.outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
