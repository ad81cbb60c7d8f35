"""What millions of rows cost, and a snapshot that is held open for long.

    python scripts/servers.py run -- python -m benchmarks.growth [--only PLACE]... [--part PART]...
        [--rows 10000000] [--rounds 3] [--minutes 20] [--rate 500] [--scale 1]

Makes a queue table and its archive with so many finished rows each, a tenth of them delayed and a
tenth ready in other queues, and prints, per database, what each verb costs there, next to empty
tables (``table``); then, minute by minute, whether archive and prune keep up while jobs come, a
snapshot being held open for the middle half of the time (``keeping-up``); then how many rows a
second they move, tenth by tenth, under a snapshot and without one (``old-snapshot``). Exits 1 if
they did not keep up or fell to half, if a job was lost or ran twice, or if anything had no result.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.contestants import GROWTH, NoResult
from benchmarks.drain import on_terminate, say, url
from benchmarks.growth import MODULE, ROWS_VARIABLE, old_snapshot, table
from benchmarks.growth.keeping_up import MODE, keep_up
from benchmarks.measures import Place

PLACES = ("mariadb", "postgresql", "sqlite")
PARTS = ("table", "keeping-up", "old-snapshot")


def grow(place: Place, options: argparse.Namespace) -> bool:
    """Whether all of it had a result, and kept up."""
    began = time.monotonic()
    place.contestant(MODE).ask(place.env, "prepare")
    place.ask(MODE, "make")
    say(f"{place.name}: {options.rows:,} rows in {time.monotonic() - began:.0f} s")
    if "table" in options.part:
        found = table.measure(place, options.rounds, options.scale)
        print(f"\n{table.page(place.name, options.rows, found)}\n", flush=True)
    is_steady = "old-snapshot" not in options.part or old_snapshot.measure(place, options.scale)
    keeps_up = "keeping-up" not in options.part or keep_up(place, options.minutes, options.rate)
    return is_steady and keeps_up


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--only", action="append", choices=PLACES, help="may be repeated")
    add("--part", action="append", choices=PARTS, help="may be repeated")
    add("--rows", type=int, default=10_000_000, help="finished ones; as many are archived")
    add("--rounds", type=int, default=3)
    add("--scale", type=float, default=1, help="factor for the numbers of jobs in the table")
    add("--minutes", type=float, default=20, help="for which jobs come")
    add("--rate", type=float, default=500, help="jobs a second")
    options = parser.parse_args(argv)
    options.part = options.part or PARTS
    return options


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, on_terminate)
    options = parse(argv)
    os.environ[ROWS_VARIABLE], problems = str(options.rows), 0
    with tempfile.TemporaryDirectory(prefix="dbqueue-growth-") as folder:
        for name in options.only or PLACES:
            place = Place(name, url(name, Path(folder)), Path(folder), GROWTH, MODULE)
            try:
                problems += not grow(place, options)
            except NoResult as problem:
                problems += 1
                say(f"{name}: NO RESULT: {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
