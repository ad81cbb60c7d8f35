"""The figures that README and docs print, and of which code they are.

    python -m benchmarks.published            publish what `make bench-peers` has measured last
    python -m benchmarks.published --confirm  say that they hold for today's code, too, if the last
                                              `make bench-quick` says so

Both write benchmarks/published.json, and from it the table in docs/performance.md and the sentence
in README.md. The tests fail when the code that drains a queue has changed since.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.drain import RESULTS
from benchmarks.hot_path import fingerprint
from benchmarks.report import TITLES

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = ROOT / "benchmarks" / "published.json"
TABLE, SENTENCE = ROOT / "docs" / "performance.md", ROOT / "README.md"
PLACES = ("mariadb", "postgresql", "sqlite", "redis")
SQL = PLACES[:3]
OURS, BARE = "django-dbqueue", "bare SQL"
BEST, DEFAULT, PEER = f"{OURS}, best", f"{OURS}, default", "django-tasks-db, best"
LIKE_OURS, ONE_CONNECTION = f"{BARE}, like ours", f"{BARE}, one connection"
ROUNDS_LEAST = 3
# How much less of bare SQL's rate still confirms: a shared machine moves by a fifth.
HOLDS = 0.8
STALE = (
    "The code that drains a queue has changed since its figures were measured. On a quiet machine, "
    "`make bench-confirm` (3 minutes) says whether they still hold; `make bench-report` (15 "
    "minutes) measures and publishes new ones."
)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--confirm", action="store_true", help="by the last `make bench-quick`")
    options = parser.parse_args(argv)
    if options.confirm:
        found = confirmed(published(), read_run("quick.json", "--quick"))
    else:
        found = figures_of(read_run("drain.json"))
    written = {PUBLISHED: json.dumps(found, indent=1) + "\n"}
    for path, text in ((TABLE, table(found)), (SENTENCE, sentence(found))):
        written[path] = with_part(path.read_text(), text, path.name)
    for path, content in written.items():
        path.write_text(content)
        print(path)
    return 0


def read_run(name: str, *arguments: str) -> dict[str, Any]:
    """The results of a whole run of today's code, whose commit can be named."""
    if not (RESULTS / name).exists():
        sys.exit(f"There is no {name} in {RESULTS}. Measure first.")
    run = dict(json.loads((RESULTS / name).read_text()))
    if tuple(run["command"].split()[3:]) != arguments or run["rounds"] < ROUNDS_LEAST:
        sys.exit(f"{name} is of `{run['command']}`. Only a whole run is published.")
    if run.get("hot_path") != fingerprint():
        sys.exit(f"{name} was measured with other code. Measure again, then publish.")
    if run["commit"].endswith("-dirty"):
        sys.exit(f"{name} is of changes that are in no commit. Commit, measure, then publish.")
    return run


def published() -> dict[str, Any]:
    if not PUBLISHED.exists():
        sys.exit("Nothing is published yet. `make bench-report` does it.")
    return dict(json.loads(PUBLISHED.read_text()))


def figures_of(run: dict[str, Any]) -> dict[str, Any]:
    """What is published of a run of everybody: medians, jobs per second."""
    rates = {place: medians(run, place) for place in PLACES}
    for place in SQL:
        _insist(place, rates[place], BEST, DEFAULT, LIKE_OURS, ONE_CONNECTION, PEER)
    return {**_stamp(run), "rounds": run["rounds"], "rates": rates, "confirmed": None}


def confirmed(found: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The figures with what a run of ours and bare SQL says of today's code; exits where it says
    that we have become slower."""
    ratios: dict[str, float] = {}
    for place in SQL:
        rates = medians(run, place)
        _insist(place, rates, BEST, DEFAULT, LIKE_OURS)
        for label in (BEST, DEFAULT):
            now = rates[label] / rates[LIKE_OURS]
            before = found["rates"][place][label] / found["rates"][place][LIKE_OURS]
            if now < HOLDS * before:
                sys.exit(
                    f"{TITLES[place]}: {label} has {now:.2f} of the rate of bare SQL, and "
                    f"{before:.2f} is published. Where the machine was quiet, something has "
                    "become slower."
                )
        ratios[place] = round(of_bare(rates), 2)
    return {**found, "confirmed": {**_stamp(run), "ratios": ratios}}


def medians(run: dict[str, Any], place: str) -> dict[str, int]:
    found = run["places"].get(place, {}).get("contestants", {})
    _insist(place, {label: one["median"] for label, one in found.items()}, *found)
    return {label: round(one["median"]) for label, one in found.items()}


def _insist(place: str, rates: dict[str, Any], *labels: str) -> None:
    missing = [label for label in labels if not rates.get(label)]
    if missing or not rates:
        told = ", ".join(missing) or "any"
        sys.exit(f"{TITLES[place]}: there is no result of {told}. Nothing is published.")


def _stamp(run: dict[str, Any]) -> dict[str, Any]:
    return {name: run[name] for name in ("commit", "date", "hot_path")}


def of_bare(rates: dict[str, int]) -> float:
    """Our best rate to that of bare SQL under the same conditions."""
    return rates[BEST] / rates[LIKE_OURS]


def fastest_other(rates: dict[str, int]) -> int:
    return max(rate for label, rate in rates.items() if not label.startswith((OURS, BARE)))


def is_of_today(found: dict[str, Any]) -> bool:
    return bool(fingerprint() == (found["confirmed"] or found)["hot_path"])


RATIOS: dict[str, Callable[[dict[str, int]], float]] = {
    f"best : {LIKE_OURS}": of_bare,
    f"best : {ONE_CONNECTION}": lambda rates: rates[BEST] / rates[ONE_CONNECTION],
    f"best : {PEER}": lambda rates: rates[BEST] / rates[PEER],
    f"default : {PEER}": lambda rates: rates[DEFAULT] / rates[PEER],
    "best : the fastest other queue": lambda rates: rates[BEST] / fastest_other(rates),
}


def table(found: dict[str, Any]) -> str:
    rates = [found["rates"][place] for place in PLACES]
    lines = [f"| | {' | '.join(TITLES[place] for place in PLACES)} |", "|---|---:|---:|---:|---:|"]
    lines += [
        _row(label, [_number(one.get(label)) for one in rates])
        for label in (BEST, DEFAULT, LIKE_OURS, ONE_CONNECTION)
    ]
    labels = (label for one in rates for label in one if not label.startswith((OURS, BARE)))
    peers = dict.fromkeys(label.rpartition(", ")[0] for label in labels)
    lines += [
        _row(f"{peer}, best / default", [_pair(one, peer) for one in rates]) for peer in peers
    ]
    for name, ratio_of in RATIOS.items():
        lines.append(_row(f"**ours, {name}**", [*(_ratio(ratio_of(one)) for one in rates[:3]), ""]))
    return "\n".join([*lines, "", _conditions(found)])


def _conditions(found: dict[str, Any]) -> str:
    text = (
        f"These are medians of {found['rounds']} rounds with commit {found['commit']}, on "
        f"{found['date']}."
    )
    if (later := found["confirmed"]) is None:
        return text
    told = ", ".join(f"{ratio:.2f} ({TITLES[place]})" for place, ratio in later["ratios"].items())
    return (
        f"{text}\nWith commit {later['commit']}, on {later['date']}, `make bench-confirm` saw "
        f"these ratios of ours, best, to {LIKE_OURS}: {told}."
    )


def _row(label: str, cells: list[str]) -> str:
    return "| " + "".join(f"{cell} | " if cell else "| " for cell in [label, *cells]).rstrip()


def _number(rate: int | None) -> str:
    return "" if rate is None else f"{rate:,}"


def _pair(rates: dict[str, int], peer: str) -> str:
    pair = [_number(rates.get(f"{peer}, {mode}")) for mode in ("best", "default")]
    return " / ".join(one or "-" for one in pair) if any(pair) else ""


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:,.2f}" if ratio < 3 else f"{ratio:,.1f}"


def sentence(found: dict[str, Any]) -> str:
    rates = [found["rates"][place] for place in SQL]
    ours = [f"{one[BEST]:,}" for one in rates]
    others = [f"{fastest_other(one):,}" for one in rates]
    return (
        f"One worker does {ours[0]} no-op jobs a second on MariaDB, {ours[1]} on PostgreSQL and\n"
        f"{ours[2]} on SQLite; the fastest other queue does {others[0]}, {others[1]} and "
        f"{others[2]} there."
    )


def with_part(page: str, text: str, name: str) -> str:
    """The page with what stands between its two marks replaced."""
    marks = re.compile(r"(<!-- make bench-report: -->\n).*?(<!-- until here -->)", re.DOTALL)
    replaced, count = marks.subn(lambda marked: f"{marked[1]}{text}\n{marked[2]}", page)
    if count != 1:
        sys.exit(f"{name} has no place for these figures, or several. Nothing is published.")
    return replaced


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
