"""When which fault strikes: worked out of the seed alone."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter

from .options import Plan

FAULTS = (
    *("kill9", "stop", "drop_connections", "restart", "read_only", "silence"),
    *("deadlocks", "snapshot"),
)


@dataclass(frozen=True)
class Fault:
    """Seconds from the start, its kind, and a generator for all that is to be chosen."""

    at: float
    kind: str
    rng: random.Random


def schedule(plan: Plan) -> list[Fault]:
    """All faults in the order of time."""
    kinds = [_of_kind(plan, kind) for kind in FAULTS]
    return list(merge(*kinds, key=attrgetter("at")))


def _of_kind(plan: Plan, kind: str) -> Iterator[Fault]:
    interval = float(plan.restart_every if kind == "restart" else getattr(plan, kind))
    if kind == "restart" and not plan.restart_database:
        interval = 0.0
    if not interval:
        return
    rng = random.Random(f"{plan.seed} {kind}")
    at = interval * rng.uniform(0.5, 1)
    while at < plan.minutes * 60:
        yield Fault(at, kind, random.Random(rng.random()))
        at += interval * rng.uniform(0.5, 1.5)
