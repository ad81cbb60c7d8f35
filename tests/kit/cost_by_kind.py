"""What each kind of test costs, in seconds of the clock and of the processors.

    pytest -p tests.kit.cost_by_kind [--cost-to FILE]

The processors' seconds are those of the tests' own process, of the children that it has waited for,
and of the server that forks workers (see ``warm_processes``); not those of database servers.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

KINDS = ("sweeps", "fuzz", "machine", "browser", "mutants")  # by folder
STARTS_PROCESSES = "database_url"
TICKS = os.sysconf("SC_CLK_TCK")  # a second
totals: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cost-to", metavar="FILE", help="also write it there, as JSON")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    wall, cpu = time.monotonic(), processors()
    yield
    total = totals[kind(item)]
    total[0] += 1
    total[1] += time.monotonic() - wall
    total[2] += processors() - cpu


def kind(item: pytest.Item) -> str:
    for name in KINDS:
        if name in item.path.parts or item.path.stem == f"test_{name}":
            return name
    asked_for = set(getattr(item, "fixturenames", ()))
    if STARTS_PROCESSES in asked_for:
        return "processes"
    return "database" if "django_db_setup" in asked_for else "plain"


def processors() -> float:
    """Seconds that this process, its children and the server that forks for it have used."""
    own = os.times()
    return sum(own[:4]) + sum(map(_with_children, _living_children()))


def _living_children() -> list[int]:
    path = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return [int(pid) for pid in path.read_text().split()]


def _with_children(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    terminalreporter.section("cost by kind: tests, seconds, of them the processors'")
    for name, (count, wall, cpu) in sorted(totals.items()):
        terminalreporter.line(f"{name:10} {count:6.0f} {wall:8.1f} {cpu:8.1f}")
    if path := config.getoption("--cost-to"):
        Path(path).write_text(json.dumps(totals))
