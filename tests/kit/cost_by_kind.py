"""What each kind of test, and each file, costs, in seconds of the clock and of the processors.

    pytest -p tests.kit.cost_by_kind [--cost-to=FILE]

With xdist (-n) only what is written to FILE counts: each process has a FILE of its own, with its
name at the end.

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
SHOWN = 25  # files that cost most
Totals = dict[str, list[float]]
by_kind: Totals = defaultdict(lambda: [0, 0.0, 0.0])
by_file: Totals = defaultdict(lambda: [0, 0.0, 0.0])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cost-to", metavar="FILE", help="also write it there, as JSON")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    wall, cpu = time.monotonic(), processors()
    yield
    cost = 1, time.monotonic() - wall, processors() - cpu
    for total in (by_kind[kind(item)], by_file[item.nodeid.partition("::")[0]]):
        total[:] = map(sum, zip(total, cost, strict=True))


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("cost: tests, seconds, of them the processors'")
    most_expensive = sorted(by_file.items(), key=lambda item: -item[1][2])[:SHOWN]
    for name, (count, wall, cpu) in [*sorted(by_kind.items()), *most_expensive]:
        terminalreporter.line(f"{name:40} {count:6.0f} {wall:8.1f} {cpu:8.1f}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := session.config.getoption("--cost-to"):
        name = path + os.environ.get("PYTEST_XDIST_WORKER", "")
        Path(name).write_text(json.dumps({"kinds": by_kind, "files": by_file}))
