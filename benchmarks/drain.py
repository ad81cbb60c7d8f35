"""The drain of no-op jobs by one worker process: ours and the peers, in turn, on the same servers.

    python scripts/servers.py run -- python -m benchmarks.drain [--only DATABASE]... [--rounds N]

Prints a Markdown table and writes benchmarks/results/drain.json. Exits 1 if any drain had no
result: a worker that stood still, a job that was lost, or one that ran twice.
"""

import argparse
import os
import platform
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.contestants import CONTESTANTS, NoResult
from benchmarks.measure import drain, environment
from benchmarks.report import Comparison, Outcome, table, versions, write

RESULTS = Path(__file__).resolve().parent / "results" / "drain.json"
DATABASES = ("mariadb", "postgresql", "sqlite", "mysql")


def url(database: str, folder: Path) -> str:
    if database == "sqlite":
        return f"sqlite:///{folder / 'bench.sqlite3'}"
    variable = f"DBQUEUE_{database.upper()}_URL"
    if not os.environ.get(variable):
        sys.exit(f"{variable} is not set: see scripts/servers.py")
    return os.environ[variable]


def compare(database: str, options: argparse.Namespace, folder: Path) -> Comparison:
    address = url(database, folder)
    outcomes = [
        Outcome(one, options.jobs if one.is_ours else options.peer_jobs) for one in CONTESTANTS
    ]
    env = environment(address, folder / "marks")
    for outcome in outcomes:
        prepare(outcome, env, database)
    for number in range(options.rounds):
        for outcome in (one for one in outcomes if one.versions):
            play(outcome, address, folder, f"{database} {number + 1}/{options.rounds}")
    return Comparison(database, outcomes)


def prepare(outcome: Outcome, env: dict[str, str], where: str) -> None:
    try:
        outcome.contestant.ask(env, "prepare")
        outcome.versions = outcome.contestant.ask(env, "versions")
    except NoResult as problem:
        note(outcome, where, problem)


def note(outcome: Outcome, where: str, problem: NoResult) -> None:
    outcome.problems.append(str(problem))
    say(f"{where}  {outcome.contestant.label}: NO RESULT: {problem}")


def play(outcome: Outcome, address: str, folder: Path, where: str) -> None:
    label = outcome.contestant.label
    try:
        rate = drain(outcome.contestant, address, outcome.jobs, folder)
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
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "rounds": options.rounds,
    }


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--only", action="append", choices=DATABASES, metavar="DATABASE", help="may be repeated")
    add("--rounds", type=int, default=3)
    add("--jobs", type=int, default=20_000, help="for each of our drains")
    add("--peer-jobs", type=int, default=1_500, help="for each of a peer's, which is slower")
    options = parser.parse_args(argv)
    options.command = " ".join(["python -m benchmarks.drain", *argv])
    return options


def wanted(only: list[str] | None) -> list[str]:
    """MySQL only where it is asked for or a URL names a server."""
    given = only or [d for d in DATABASES if d != "mysql" or os.environ.get("DBQUEUE_MYSQL_URL")]
    return [database for database in DATABASES if database in given]


def on_terminate(signum: int, _frame: object) -> None:
    # As an exception, so that the worker under way is ended too.
    raise SystemExit(128 + signum)


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, on_terminate)
    options = parse(argv)
    facts = about(options)
    with tempfile.TemporaryDirectory(prefix="dbqueue-bench-") as folder:
        found = [compare(database, options, Path(folder)) for database in wanted(options.only)]
    write(RESULTS, facts, found)
    print("Jobs per second, one worker process, median (lowest to highest):\n")
    print(table(found), end="\n\n")
    print(
        f"Python {facts['python']}, {facts['cores']} cores, load {facts['load']:.1f} before, "
        f"{options.rounds} rounds; `{options.command}`\n{versions(found)}"
    )
    return int(any(outcome.problems for one in found for outcome in one.outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
