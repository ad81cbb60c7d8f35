"""The admin at a million rows: what every page, command and action takes and reads.

    python scripts/servers.py run -- python -m benchmarks.admin [--only PLACE]... [--rows N]
        [--part WORDS]

Fills the mail queue, its archive, their recipients, a week of the charts' table and the admin's
log, by SQL: 5,000,000 rows are about 10 GB of disk for each database, and take PostgreSQL a quarter
of an hour, MariaDB half of one and SQLite longer. Then it asks for each page by Django's test
client, a few times, with a hundredth of the rows and with all of them: the number of queries must
not grow by more than a list needs that looks on. Then each action changes 10,000 jobs.

The milliseconds are those of the CPU, of this process and of the server: what a page takes where
nothing else runs. ``--part`` measures only what has these words in its name.

Prints Markdown tables and writes them to benchmarks/results/. Exits 1 if a page answers anything
but 200, if its number of queries grows, or if an action changes fewer.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.adapters import URL_VARIABLE
from benchmarks.contestants import ROOT
from benchmarks.drain import RESULTS, say, url

PLACES = ("mariadb", "postgresql", "sqlite")
# By page: milliseconds, queries with few rows and with all, rows read, and the answer's status; by
# action: seconds, rows read, what the admin's log says, and the answer's status.
Found = dict[str, dict[str, dict[str, Any]]]
FINE = {200, 302}  # the latter of questions about more than can be asked
# More than with few rows: of a list that looks on for so long, of kinds that are counted.
QUERIES_OF_WALK = 60
ASK = "ask, "  # what it is done to is looked for to the end, for up to ten seconds


def ask(place: str, rows: int, part: str, folder: Path) -> Found:
    address = url(place, folder)
    env = {**os.environ, URL_VARIABLE: address, "DATABASE_URL": address, "DEBUG": "0"}
    command = [sys.executable, "-m", "benchmarks.admin_inside", str(rows), part]
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def problems(place: str, found: Found) -> list[str]:
    pages, actions = found["pages"], found["actions"]
    wrong = [
        f"{place} {page}: {it['status']}" for page, it in pages.items() if it["status"] not in FINE
    ]
    failed = [
        f"{place} {action}: {it['status']}, {it['said']}"
        for action, it in actions.items()
        if it["status"] != 302 or not it["is_done"]
    ]
    grown = [
        f"{place} {page}: {it['few']} queries with few rows, {it['queries']} with all"
        for page, it in pages.items()
        if it["queries"] > it["few"] + QUERIES_OF_WALK and not page.startswith(ASK)
    ]
    return wrong + grown + failed


def table(by_place: dict[str, Found], rows: int) -> str:
    places = list(by_place)
    conditions = (
        f"{rows:,} jobs; Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}."
    )
    return "\n".join(
        [
            f"| page | {' | '.join(f'{one}, ms | rows' for one in places)} |",
            "|---|" + "---:|" * 2 * len(places),
            *lines(by_place, "pages", lambda it: f"{it['cpu']:.0f} | {it['read']:,}"),
            "",
            f"| 10,000 jobs | {' | '.join(f'{one}, s | rows' for one in places)} |",
            "|---|" + "---:|" * 2 * len(places),
            *lines(by_place, "actions", lambda it: f"{it['cpu']:.1f} | {it['read']:,}"),
            "",
            conditions,
        ]
    )


def lines(
    by_place: dict[str, Found], what: str, shown: Callable[[dict[str, Any]], str]
) -> Iterator[str]:
    for name in next(iter(by_place.values()))[what]:
        cells = (shown(found[what][name]) for found in by_place.values())
        yield f"| {name} | {' | '.join(cells)} |"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PLACES)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--part", default="", help="only what has these words in its name")
    options = parser.parse_args(argv)
    found: dict[str, Found] = {}
    with tempfile.TemporaryDirectory() as folder:
        for place in options.only or PLACES:
            say(f"{place}: filling")
            found[place] = ask(place, options.rows, options.part, Path(folder))
    page = table(found, options.rows)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "admin.md").write_text(page + "\n")
    print(page)
    wrong = [one for place, its in found.items() for one in problems(place, its)]
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
