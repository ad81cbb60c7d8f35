"""The admin at a million rows: server time and number of queries of every page.

    python scripts/servers.py run -- python -m benchmarks.admin [--only PLACE]... [--rows N]

Fills the mail queue, its archive and a week of the charts' table, then asks for each page a few
times by Django's test client: the time is the server's, without a network. The queries are counted
with a hundredth of the rows and with all of them; the two must be the same. Then each action
changes 10,000 jobs.

Prints Markdown tables and writes them to benchmarks/results/. Exits 1 if a page answers anything
but 200, if its number of queries grows by more than a list needs that looks on, or if an action
changes fewer.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.adapters import URL_VARIABLE
from benchmarks.contestants import ROOT
from benchmarks.drain import RESULTS, say, url

PLACES = ("mariadb", "postgresql", "sqlite")
# By page: milliseconds, queries with few rows and with all, and the answer's status; by action:
# seconds, what the admin's log says, and the answer's status.
Found = dict[str, dict[str, dict[str, Any]]]
CHANGED = "10000 changed"
QUERIES_OF_WALK = 30  # more than with few rows


def ask(place: str, rows: int, folder: Path) -> Found:
    address = url(place, folder)
    env = {**os.environ, URL_VARIABLE: address, "DATABASE_URL": address, "DEBUG": "0"}
    command = [sys.executable, "-m", "benchmarks.admin_inside", str(rows)]
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def problems(place: str, found: Found) -> list[str]:
    pages, actions = found["pages"], found["actions"]
    wrong = [f"{place} {page}: {it['status']}" for page, it in pages.items() if it["status"] != 200]
    failed = [
        f"{place} {action}: {it['status']}, {it['said']}"
        for action, it in actions.items()
        if it["status"] != 302 or CHANGED not in it["said"]
    ]
    grown = [
        f"{place} {page}: {it['few']} queries with few rows, {it['queries']} with all"
        for page, it in pages.items()
        if it["queries"] > it["few"] + (QUERIES_OF_WALK if _walks(page) else 0)
    ]
    return wrong + grown + failed


def _walks(page: str) -> bool:
    """Whether a list looks on, as long as it has time, for what no index answers."""
    return "one queue" in page or "subject of" in page or page.startswith("archive, ")


def table(by_place: dict[str, Found], rows: int) -> str:
    places = list(by_place)
    head = f"| page | {' | '.join(f'{place}, ms' for place in places)} | queries |"
    lines = [head, "|---|" + "---:|" * (len(places) + 1)]
    for page in by_place[places[0]]["pages"]:
        its = [by_place[place]["pages"][page] for place in places]
        times = " | ".join(f"{it['ms']:.0f}" for it in its)
        counts = sorted({it["queries"] for it in its})
        lines.append(f"| {page} | {times} | {' or '.join(map(str, counts))} |")
    for page in by_place[places[0]]["pages"]:
        looked_at = {place: by_place[place]["pages"][page]["looked_at"] for place in places}
        if any(looked_at.values()):
            lines.append(f"\n{page}: of this many rows {looked_at}")
    lines += ["", f"| 10,000 jobs | {' | '.join(f'{place}, s' for place in places)} |"]
    lines.append("|---|" + "---:|" * len(places))
    for action in by_place[places[0]]["actions"]:
        seconds = [by_place[place]["actions"][action]["seconds"] for place in places]
        lines.append(f"| {action} | {' | '.join(f'{one:.1f}' for one in seconds)} |")
    conditions = (
        f"{rows:,} jobs; medians of 7; Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}."
    )
    return "\n".join([*lines, "", conditions])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PLACES)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args(argv)
    found: dict[str, Found] = {}
    with tempfile.TemporaryDirectory() as folder:
        for place in options.only or PLACES:
            say(f"{place}: filling")
            found[place] = ask(place, options.rows, Path(folder))
    page = table(found, options.rows)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "admin.md").write_text(page + "\n")
    print(page)
    wrong = [one for place, its in found.items() for one in problems(place, its)]
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
