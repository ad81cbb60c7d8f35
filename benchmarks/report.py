"""The results of a run: medians, ratios, a JSON file and Markdown tables."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contestants import BARE, OURS, Contestant

# Modes of ours that everybody is compared with, and what is compared with bare SQL.
MODES = ("best", "default")
LIKE_FOR_LIKE = (
    ("best", "like ours"),
    ("best, letting go", "like ours, letting go"),
    ("best, durable", "like ours, durable"),
    ("best", "one connection"),
)
TITLES = {
    "mariadb": "MariaDB",
    "mysql": "MySQL",
    "postgresql": "PostgreSQL",
    "sqlite": "SQLite",
    "redis": "Redis",
}


@dataclass
class Outcome:
    """What one contestant did in one place: jobs per second, round by round."""

    contestant: Contestant
    jobs: int
    rates: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def median(self) -> float | None:
        """None where any round had no result."""
        return None if self.problems or not self.rates else median(self.rates)

    def times(self, other: "Outcome") -> float | None:
        """How many times as fast as another; None where one of the two is unknown."""
        return self.median / other.median if self.median and other.median else None

    def cells(self) -> list[str]:
        if self.median is None:
            return [f"{self.jobs:,}", "no result", "-"]
        span = f"{min(self.rates):,.0f} to {max(self.rates):,.0f}"
        return [f"{self.jobs:,}", f"{self.median:,.0f}", span]

    def as_dict(self) -> dict[str, Any]:
        return {
            "adapter": self.contestant.adapter,
            "mode": self.contestant.mode,
            "jobs": self.jobs,
            "median": self.median,
            "rates": self.rates,
            "problems": self.problems,
            "versions": self.versions,
        }


@dataclass
class Comparison:
    """All contestants on one database or broker."""

    place: str
    outcomes: list[Outcome]

    @property
    def title(self) -> str:
        return TITLES[self.place]

    @property
    def ours(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.contestant.is_ours]


@dataclass
class Ratio:
    """A column of ratios: one contestant's rate to each row's."""

    head: str
    one: Outcome

    def of(self, row: Outcome) -> float | None:
        return self.one.times(row)


def ratios(comparison: Comparison, everywhere: Sequence[Comparison]) -> list[Ratio]:
    """Ours against each; where ours is not, that of all the databases."""
    if comparison.ours:
        shown = [one for one in comparison.ours if one.contestant.mode in MODES]
        return [Ratio(f"{o.contestant.label} : this", o) for o in shown]
    return [
        Ratio(f"{ours.contestant.label} on {other.title} : this", ours)
        for other in everywhere
        for ours in other.ours
        if ours.contestant.mode == "best"
    ]


def like_for_like(comparison: Comparison) -> str:
    """Ours against bare SQL that works under the same conditions."""
    by_mode = {(o.contestant.adapter, o.contestant.mode): o for o in comparison.outcomes}
    lines = []
    for ours, bare in LIKE_FOR_LIKE:
        one, other = by_mode.get((OURS, ours)), by_mode.get((BARE, bare))
        if one and other and (times := one.times(other)):
            lines.append(f"- {one.contestant.label} : {other.contestant.label} = {times:,.2f}")
    return "\n".join(lines)


def table(comparison: Comparison, everywhere: Sequence[Comparison]) -> str:
    columns = ratios(comparison, everywhere)
    heads = ["", "jobs", "jobs/s", "lowest to highest", *(column.head for column in columns)]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for row in comparison.outcomes:
        numbers = [column.of(row) for column in columns]
        known = ["-" if number is None else f"{number:,.2f}" for number in numbers]
        lines.append([row.contestant.label, *row.cells(), *known])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(about: dict[str, Any], comparisons: Sequence[Comparison]) -> str:
    """A table for each database, then the conditions and the versions."""
    tables = [
        f"## {one.title}\n\n{table(one, comparisons)}\n\n{like_for_like(one)}\n"
        for one in comparisons
    ]
    conditions = (
        f"Medians of {about['rounds']} rounds, {about['workers']} worker process(es), "
        f"Python {about['python']}, {about['cores']} cores, load {about['load']:.1f} before; "
        f"`{about['command']}`, {about['date']}."
    )
    return "\n".join([*tables, conditions, "", *versions(comparisons)])


def versions(comparisons: Iterable[Comparison]) -> list[str]:
    """Who ran with what, once each."""
    lines = (line for one in comparisons for line in versions_of(one.title, one.outcomes))
    return list(dict.fromkeys(lines))


def versions_of(title: str, outcomes: Iterable[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        if outcome.versions:
            told = ", ".join(f"{name} {version}" for name, version in outcome.versions.items())
            yield f"- {outcome.contestant.name} on {title}: {told}"


def as_dict(comparison: Comparison, everywhere: Sequence[Comparison]) -> dict[str, Any]:
    return {
        "contestants": {o.contestant.label: o.as_dict() for o in comparison.outcomes},
        "ratios": {
            column.head: {o.contestant.label: column.of(o) for o in comparison.outcomes}
            for column in ratios(comparison, everywhere)
        },
    }


def write(
    folder: Path, name: str, about: dict[str, Any], comparisons: Sequence[Comparison]
) -> None:
    folder.mkdir(exist_ok=True)
    found = {one.place: as_dict(one, comparisons) for one in comparisons}
    (folder / f"{name}.json").write_text(json.dumps(about | {"places": found}, indent=1) + "\n")
    (folder / f"{name}.md").write_text(page(about, comparisons) + "\n")
