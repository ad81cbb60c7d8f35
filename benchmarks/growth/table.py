"""What a table and its archive of millions of rows cost, next to empty ones, in turn."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

from benchmarks.drain import say
from benchmarks.measure import drain
from benchmarks.measures import Place, latency

Figures = dict[str, float]
TABLES = ("empty", "full")
DRAINED, CLAIMED, CREATED, MOVED = 20_000, 20_000, 1000, 20_000  # jobs
PICKED_UP, RATE = 600, 200  # jobs, and how many of them a second
RATIO_MAX = 1.2  # of the full table's costs to the empty one's


@dataclass(frozen=True)
class Line:
    """A figure of the empty table, and of the full one."""

    name: str
    empty: float
    full: float

    @property
    def is_rate(self) -> bool:
        return self.name.endswith("/s")

    @property
    def ratio(self) -> float:
        """How many times as expensive it is in the full table."""
        return self.empty / self.full if self.is_rate else self.full / self.empty

    def __str__(self) -> str:
        digits = 0 if self.is_rate else 2
        cells = f"{self.empty:,.{digits}f}", f"{self.full:,.{digits}f}", f"{self.ratio:.2f}"
        met = "" if self.ratio <= RATIO_MAX else f"over {RATIO_MAX}"
        return f"| {self.name} | {' | '.join(cells)} | {met} |"


def measure(place: Place, rounds: int, scale: float) -> list[Line]:
    """Medians of so many rounds."""
    found: dict[str, list[Figures]] = {table: [] for table in TABLES}
    for _ in range(rounds):
        for table, figures in found.items():
            figures.append(dict(one_round(place, table, scale)))
            say(f"{place.name}, {table}: {spoken(figures[-1])}")
    return lines(*([*figures] for figures in found.values()))


def spoken(figures: Figures) -> str:
    return "; ".join(f"{name} {value:.4g}" for name, value in figures.items())


def lines(empty: list[Figures], full: list[Figures]) -> list[Line]:
    def middle(rounds: list[Figures], name: str) -> float:
        return median(one[name] for one in rounds)

    return [Line(name, middle(empty, name), middle(full, name)) for name in empty[0]]


def one_round(place: Place, table: str, scale: float) -> Iterator[tuple[str, float]]:
    def jobs(count: int) -> int:
        return max(100, round(count * scale))

    best, default = f"{table}, best", f"{table}, default"
    yield "drain, jobs/s", drain(place.contestant(best), place.url, jobs(DRAINED), 1, place.folder)
    yield from of("claim of 100", "jobs", place.ask(default, "claims", jobs(CLAIMED)))
    picked_up = latency.latencies(place, default, RATE, jobs(PICKED_UP))
    cuts = quantiles(picked_up, n=100, method="inclusive")
    yield "pick-up, p50, ms", cuts[49]
    yield "pick-up, p99, ms", cuts[98]
    enqueued = place.ask(default, "enqueue", jobs(CREATED))
    yield "create(), rows/s", rate(enqueued["create"])
    yield "enqueue_many(), rows/s", rate(enqueued["many"])
    yield from of("promote", "rows", place.ask(default, "promote", jobs(MOVED)))
    kept = place.ask(default, "keep", jobs(MOVED))
    for verb in ("archive", "prune"):
        yield from of(verb, "rows", kept[verb])


def of(name: str, unit: str, found: Mapping[str, list[float]]) -> Iterator[tuple[str, float]]:
    yield f"{name}, {unit}/s", rate(found)
    yield f"{name}, ms", median(found["seconds"]) * 1000


def rate(found: Mapping[str, list[float]]) -> float:
    return sum(found["rows"]) / sum(found["seconds"])


def page(place: str, rows: int, found: list[Line]) -> str:
    """As Markdown."""
    head = f"| {place} | empty | {rows:,} rows | times as expensive | |\n|---|---:|---:|---:|---|"
    return "\n".join([head, *map(str, found)])
