"""Django Tasks: our backend next to two others, and to Oban, in turn, on the same servers.

    python scripts/servers.py run -- python -m benchmarks.tasks [--only PLACE]... [--rounds N]
        [--contestant ADAPTER]... [--measure NAME]... [--scale X]

Enqueueing one by one, in bulk and from async code, and the drain of no-op tasks by two worker
processes. Prints Markdown tables and writes them and the figures to benchmarks/results/. Exits 1 if
any measure had no result: a task that was not written, was lost, or ran twice.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.adapters import WAYS
from benchmarks.contestants import POSTGRESQL, ROOT, Contestant, NoResult
from benchmarks.drain import RESULTS, about, on_terminate, say, url
from benchmarks.measure import drain, environment
from benchmarks.report import TITLES, Outcome, versions_of

PLACES = ("mariadb", "postgresql", "sqlite")
DRAIN = "drain"
MEASURES = (*WAYS, DRAIN)
HEADS = ("`enqueue()`", "in bulk, by 1,000", "`aenqueue()`", "drain, 2 processes")


@dataclass(frozen=True)
class TaskContestant(Contestant):
    """``counts``: the tasks of each measure that it has, some seconds' worth. ``workers``: how
    often its command is started, to have two processes that run tasks."""

    counts: Mapping[str, int]
    workers: int

    @property
    def python(self) -> str:
        """Of its own environment of the newest Python; ours is in one, too."""
        folder = ROOT / os.environ.get("BENCH_PEERS", ".venv-peers")
        return str(folder / f"newest-{self.adapter}" / "bin" / "python")


def contestant(
    name: str,
    adapter: str,
    counts: tuple[int, ...],
    *,
    mode: str = "best",
    workers: int = 1,
    on: frozenset[str] = frozenset(PLACES),
) -> TaskContestant:
    given = {measure: n for measure, n in zip(MEASURES, counts, strict=True) if n}
    return TaskContestant(name, mode, adapter, on, 0, given, workers)


# The first one is what the others are compared with.
CONTESTANTS = (
    contestant("django-dbqueue", "dbqueue_tasks", (1_000, 20_000, 1_000, 20_000)),
    contestant("django-dbqueue", "dbqueue_tasks", (0, 0, 0, 20_000), mode="default"),
    contestant("django-tasks-db", "django_tasks_db", (1_000, 0, 1_000, 1_500), workers=2),
    contestant("dj-queue", "dj_queue", (500, 5_000, 500, 2_000)),
    contestant("Oban", "oban", (0, 20_000, 1_000, 4_000), workers=2, on=POSTGRESQL),
)

Outcomes = dict[tuple[str, str], Outcome]


def rate(one: TaskContestant, name: str, jobs: int, address: str, folder: Path) -> float:
    if name == DRAIN:
        return drain(one, address, jobs, one.workers, folder)
    env = environment(address, folder / "marks")
    return jobs / float(one.ask(env, name, jobs))


def compare(place: str, options: argparse.Namespace, folder: Path) -> Outcomes:
    address = url(place, folder)
    outcomes: Outcomes = {}
    for one in CONTESTANTS:
        if place in one.on and one.adapter in (options.contestant or [one.adapter]):
            outcomes.update(prepared(one, options, environment(address, folder / "marks")))
    for number in range(options.rounds):
        where = f"{place} {number + 1}/{options.rounds}"
        for (_, name), outcome in outcomes.items():
            play(outcome, name, address, folder, where)
    return outcomes


def prepared(one: TaskContestant, options: argparse.Namespace, env: dict[str, str]) -> Outcomes:
    """What it is to do, or why it cannot."""
    wanted = options.measure or MEASURES
    counts = {k: max(1, round(n * options.scale)) for k, n in one.counts.items() if k in wanted}
    outcomes = {(one.label, name): Outcome(one, jobs) for name, jobs in counts.items()}
    try:
        one.ask(env, "prepare")
        versions = one.ask(env, "versions")
    except NoResult as problem:
        say(f"{one.label}: NO RESULT: {problem}")
        for outcome in outcomes.values():
            outcome.problems.append(str(problem))
    else:
        for outcome in outcomes.values():
            outcome.versions = versions
    return outcomes


def play(outcome: Outcome, name: str, address: str, folder: Path, where: str) -> None:
    one = outcome.contestant
    assert isinstance(one, TaskContestant)
    if not outcome.versions:
        return
    try:
        outcome.rates.append(rate(one, name, outcome.jobs, address, folder))
    except NoResult as problem:
        outcome.problems.append(str(problem))
        say(f"{where}  {one.label}, {name}: NO RESULT: {problem}")
    else:
        say(f"{where}  {one.label}, {name}: {outcome.jobs:,} tasks, {outcome.rates[-1]:,.0f}/s")


def cell(outcomes: Outcomes, label: str, name: str) -> str:
    """The median, and how many times as fast ours is on its best settings."""
    outcome, first = outcomes.get((label, name)), outcomes.get((CONTESTANTS[0].label, name))
    if outcome is None:
        return "-"
    if outcome.median is None:
        return "no result"
    times = first.times(outcome) if first and first is not outcome else None
    return f"{outcome.median:,.0f}" + (f" ({times:,.1f})" if times else "")


def table(place: str, outcomes: Outcomes) -> str:
    labels = dict.fromkeys(label for label, _ in outcomes)
    rows = [[label, *(cell(outcomes, label, name) for name in MEASURES)] for label in labels]
    lines = [[TITLES[place], *HEADS], ["---", *["---:"] * len(HEADS)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(facts: dict[str, Any], found: Mapping[str, Outcomes]) -> str:
    conditions = (
        f"Tasks per second, medians of {facts['rounds']} rounds in turn; in brackets how many "
        f"times as fast ours is. {facts['cores']} cores, load {facts['load']:.1f} before; "
        f"`{facts['command']}`, {facts['date']}."
    )
    told = (line for p, o in found.items() for line in versions_of(TITLES[p], o.values()))
    tables = [table(place, outcomes) + "\n" for place, outcomes in found.items()]
    return "\n".join([*tables, conditions, "", *dict.fromkeys(told)])


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--only", action="append", choices=PLACES, help="may be repeated")
    add("--contestant", action="append", metavar="ADAPTER", help="only this; may be repeated")
    add("--measure", action="append", choices=MEASURES, help="may be repeated")
    add("--rounds", type=int, default=3)
    add("--scale", type=float, default=1, help="factor for the numbers of tasks")
    parser.set_defaults(workers=2)
    options = parser.parse_args(argv)
    options.command = " ".join(["python -m benchmarks.tasks", *argv])
    return options


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, on_terminate)
    options = parse(argv)
    facts = about(options)
    found: dict[str, Outcomes] = {}
    with tempfile.TemporaryDirectory(prefix="dbqueue-bench-") as folder:
        for place in options.only or PLACES:
            found[place] = compare(place, options, Path(folder))
    kept = {p: [{"measure": n} | o.as_dict() for (_, n), o in r.items()] for p, r in found.items()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tasks.json").write_text(json.dumps(facts | {"places": kept}, indent=1) + "\n")
    (RESULTS / "tasks.md").write_text(page(facts, found) + "\n")
    print(page(facts, found))
    return int(any(outcome.problems for one in found.values() for outcome in one.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
