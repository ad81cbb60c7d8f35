"""What else is measured of this library: enqueueing, latency, idling, memory.

    python scripts/servers.py run -- python -m benchmarks.ours [--only PLACE]... [--measure NAME]...

Prints a Markdown table and writes it and the figures to benchmarks/results/. Exits 1 if any measure
had no result.
"""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.contestants import NoResult
from benchmarks.drain import RESULTS, about, on_terminate, say, url
from benchmarks.measures import (
    Figure,
    Place,
    cost,
    crowd,
    drains,
    enqueue,
    idle,
    latency,
    many_queues,
    ours,
    stages,
)

PLACES = ("mariadb", "postgresql", "sqlite")
MEASURES: dict[str, Callable[[Place], Iterator[Figure]]] = {
    "enqueue": enqueue.measure,
    "latency": latency.measure,
    "idle": idle.measure,
    "stages": stages.measure,
    "cost": cost.measure,
    "drains": drains.measure,
    "many-queues": many_queues.measure,
    "crowd": crowd.measure,
}


def figures(options: argparse.Namespace, folder: Path) -> Iterator[Figure]:
    for name in options.only or PLACES:
        place = Place(name, url(name, folder), folder)
        ours("best").ask(place.env, "prepare")
        for measure in options.measure or MEASURES:
            try:
                for figure in MEASURES[measure](place):
                    say(line(figure))
                    yield figure
            except NoResult as problem:
                options.problems += 1
                say(f"{name}  {measure}: NO RESULT: {problem}")


def line(figure: Figure) -> str:
    met = {None: "", True: "met", False: "MISSED"}[figure.is_met]
    cells = [figure.place, figure.name, f"{figure.value:,.2f} {figure.unit}", figure.target, met]
    return f"| {' | '.join(cells)} |"


def page(found: list[Figure], facts: dict[str, object]) -> str:
    head = ["| | | | target | |", "|---|---|---:|---|---|"]
    conditions = (
        f"Python {facts['python']}, {facts['cores']} cores, load {facts['load']:.1f} before; "
        f"`{facts['command']}`, {facts['date']}."
    )
    return "\n".join([*head, *map(line, found), "", conditions])


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PLACES)
    parser.add_argument("--measure", action="append", choices=MEASURES)
    parser.set_defaults(problems=0, rounds=1, workers=1)
    options = parser.parse_args(argv)
    options.command = " ".join(["python -m benchmarks.ours", *argv])
    return options


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, on_terminate)
    options = parse(argv)
    facts = about(options)
    with tempfile.TemporaryDirectory(prefix="dbqueue-bench-") as folder:
        found = list(figures(options, Path(folder)))
    RESULTS.mkdir(exist_ok=True)
    text = page(found, facts)
    (RESULTS / "ours.md").write_text(text + "\n")
    kept = facts | {"figures": [vars(figure) | {"met": figure.is_met} for figure in found]}
    (RESULTS / "ours.json").write_text(json.dumps(kept, indent=1) + "\n")
    print(text)
    return int(bool(options.problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
