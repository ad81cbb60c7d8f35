"""What a torture is told."""

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, Self


@dataclass(frozen=True)
class Plan:
    """How long, how much, and how often which fault; intervals are means, in seconds, 0 = never."""

    seed: int
    minutes: float = 1.0
    jobs_per_second: float = 100.0
    long_jobs: float = 0.06
    workers: int = 6
    children: int = 2
    producers: int = 2
    kill9: float = 1.35
    groups: float = 0.2
    stop: float = 2.7
    drop_connections: float = 7.0
    restart_database: str = ""
    restart_every: float = 28.0
    read_only: float = 0.0
    silence: float = 25.0
    deadlocks: float = 5.0
    skew: float = 600.0
    snapshot: float = 40.0

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        return cls(**{one.name: given[one.name] for one in fields(cls)})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


HELP = {
    "minutes": "how long faults are made; then all is healed, drained and judged",
    "jobs_per_second": "enqueued, by all producers together",
    "long_jobs": "the share of the jobs that take 0.3 to 1.5 s, the others a moment",
    "workers": "processes of runworker, each with its children",
    "children": "of each worker, which run its jobs",
    "producers": "processes that enqueue",
    "kill9": "seconds between SIGKILLs; 0 = none, as for every fault",
    "groups": "the share of the kills that takes a worker's whole process group, from 0 to 1",
    "stop": "seconds between SIGSTOPs, each for 0.5 to 3 times the worker timeout",
    "drop_connections": "seconds between kills of one of the server's connections",
    "restart_database": "a shell command that kills the server and starts it again",
    "restart_every": "seconds between runs of that command",
    "read_only": "seconds between spells in which the server takes no writes; on MariaDB and MySQL "
    "the whole server",
    "silence": "seconds between spells in which the server does not answer the workers, each for "
    "0.3 to 1.5 times the worker timeout",
    "deadlocks": "seconds between spells of transactions that lock jobs in opposite orders",
    "skew": "by how many seconds the clocks of two thirds of the workers are wrong, either way",
    "snapshot": "seconds between old snapshots, each held open for most of that time",
}


def add_arguments(parser: ArgumentParser, alias: Callable[[str], str]) -> None:
    add = parser.add_argument
    add("--database", type=alias, default="default", help="next to which the scratch one is made")
    for one in fields(Plan):
        if one.name in HELP:
            text = HELP[one.name] + (f"; default: {one.default}" if one.default else "")
            option = "--" + one.name.replace("_", "-")
            add(option, type=KINDS[one.type], default=one.default, help=text)
    add("--seed", type=int, help="repeat the faults of another run, as far as that is possible")
    add("--keep", metavar="FOLDER", help="keep histories and logs there, and a failed run's rows")


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def not_negative(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError
    return number


KINDS: dict[Any, Callable[[str], Any]] = {int: positive, float: not_negative, str: str}
