"""The house stands: no import runs upward, no cycle, the core knows none of its queue apps."""

import re
from pathlib import Path

import grimp
import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "django_dbqueue"
FLOORS = [
    {
        "states",
        "exceptions",
        "conf",
        "backoff",
        "signals",
        "fields",
        "guard",
        "shards",
        "events",
        "current",
    },
    {"dialects"},
    {"lifecycle"},
    {"models"},
    {"worker"},
    {"metrics", "monitor", "diagnose", "checks", "adopt", "operate", "integrations", "texts"},
    {
        "admin",
        "management",
        "mail",
        "tasks",
        "schedules",
        "beanstalk",
        "bulk",
        "torture",
        "demo_data",
        "server",
        "apps",
        "migrations",
    },
    {"testing"},
]
QUEUE_APPS = {"mail", "tasks", "beanstalk", "bulk", "torture"}


@pytest.fixture(scope="module")
def imports():
    """(importer, imported) pairs of the package's modules, by their parts."""
    graph = grimp.build_graph("django_dbqueue", cache_dir=None, exclude_type_checking_imports=True)
    pairs = {
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    }
    assert len(pairs) > 50
    return pairs


def part(module):
    return module.split(".")[1] if "." in module else ""


def floor(module):
    return next((n for n, parts in enumerate(FLOORS) if part(module) in parts), None)


def test_every_module_stands_on_a_floor(imports):
    modules = {module for pair in imports for module in pair} - {"django_dbqueue"}
    assert [module for module in modules if floor(module) is None] == []


def test_no_import_runs_upward(imports):
    inside = [pair for pair in imports if part(pair[0]) and part(pair[1])]
    assert [pair for pair in inside if floor(pair[0]) < floor(pair[1])] == []


def test_the_core_imports_no_queue_app_and_they_not_each_other(imports):
    assert [
        pair for pair in imports if part(pair[1]) in QUEUE_APPS and part(pair[0]) != part(pair[1])
    ] == []


def test_nothing_but_tasks_imports_the_schedules(imports):
    """They are an app that a project may leave out; a target of another kind registers with it."""
    assert [
        pair
        for pair in imports
        if part(pair[1]) == "schedules" and part(pair[0]) not in {"schedules", "tasks"}
    ] == []


def test_there_is_no_cycle_between_modules(imports):
    below = {}
    for importer, imported in imports:
        below.setdefault(importer, set()).add(imported)
    while leaves := {m for ms in below.values() for m in ms} - below.keys():
        below = {m: ms - leaves for m, ms in below.items()}
        below = {m: ms for m, ms in below.items() if ms}
    assert below == {}


def test_nobody_but_the_dialects_looks_at_the_vendor():
    assert offenders(r"\.vendor\b|mysql_is_mariadb", allowed="dialects") == []


def test_nobody_but_the_lifecycle_writes_a_status():
    assert offenders(r"SET status|\.update\([^)]*\bstatus=|\.status = ", allowed="lifecycle") == []


def test_who_catches_every_exception_says_why():
    assert offenders(r"except\b[^#]*\b(Base)?Exception\b(?!.*# why: )|except:") == []


def offenders(pattern, allowed=None):
    return [
        f"{path}:{number}"
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] != allowed
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line)
    ]
