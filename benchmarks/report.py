"""The results of a run: medians, ratios, a JSON file and a Markdown table."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contestants import Contestant


@dataclass
class Outcome:
    """What one contestant did on one database: jobs per second, round by round."""

    contestant: Contestant
    jobs: int
    rates: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def median(self) -> float | None:
        """None where any round had no result."""
        return None if self.problems or not self.rates else median(self.rates)

    def __str__(self) -> str:
        if self.median is None:
            return "no result"
        return f"{self.median:,.0f} ({min(self.rates):,.0f} to {max(self.rates):,.0f})"

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
    """All contestants on one database."""

    database: str
    outcomes: list[Outcome]

    def ratios(self) -> Iterator[tuple[str, str, float | None]]:
        """Each of ours against each peer: the labels, and how many times as fast."""
        for ours in (o for o in self.outcomes if o.contestant.is_ours):
            for peer in (o for o in self.outcomes if not o.contestant.is_ours):
                known = ours.median and peer.median
                ratio = ours.median / peer.median if known else None  # type: ignore[operator]
                yield ours.contestant.label, peer.contestant.label, ratio

    def as_dict(self) -> dict[str, Any]:
        return {
            "contestants": {o.contestant.label: o.as_dict() for o in self.outcomes},
            "ratios": {f"{ours} : {peer}": ratio for ours, peer, ratio in self.ratios()},
        }


def table(comparisons: list[Comparison]) -> str:
    """Jobs per second as Markdown: median (lowest to highest), then the ratios of the medians."""
    first = comparisons[0]
    labels = [outcome.contestant.label for outcome in first.outcomes]
    heads = ["database", *labels, *(f"{ours} : {peer}" for ours, peer, _ in first.ratios())]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for one in comparisons:
        ratios = ["-" if ratio is None else f"{ratio:.1f}" for _, _, ratio in one.ratios()]
        lines.append([one.database, *map(str, one.outcomes), *ratios])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def versions(comparisons: list[Comparison]) -> str:
    """Who ran with what, once each."""
    lines = (
        f"{outcome.contestant.adapter} on {one.database}: "
        + ", ".join(f"{name} {version}" for name, version in outcome.versions.items())
        for one in comparisons
        for outcome in one.outcomes
        if outcome.versions
    )
    return "\n".join(f"- {line}" for line in dict.fromkeys(lines))


def write(path: Path, about: dict[str, Any], comparisons: list[Comparison]) -> None:
    path.parent.mkdir(exist_ok=True)
    found = {one.database: one.as_dict() for one in comparisons}
    path.write_text(json.dumps(about | {"databases": found}, indent=1) + "\n")
