"""Loaded into pytest where a mutant is tried: quick tests first, and a file of what came of them.

Tests that start processes come last. On a busy machine they may fail without any mutant.
"""

import json
from collections import Counter

from tests.kit import selection

RESULT = "result.json"
SHAKY = {"process", "timing", "browser"}


class Result:
    """The seconds of each file; and who failed, in order, each with whether it is shaky."""

    def __init__(self, path):
        self.path = path
        self.seconds = Counter()
        self.failed = []

    def pytest_collectreport(self, report):
        if report.nodeid.endswith(".py"):
            self.seconds[report.nodeid] += 0
        self._note(report, is_shaky=False)

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid.partition("::")[0]] += report.duration
        self._note(report, bool(SHAKY & set(report.keywords)))

    def _note(self, report, is_shaky):
        if report.failed:
            self.failed.append([report.nodeid, is_shaky])

    def pytest_sessionfinish(self):
        found = {"seconds": self.seconds, "failed": self.failed}
        self.path.write_text(json.dumps(found))


def pytest_configure(config):
    config.pluginmanager.register(Result(config.rootpath / RESULT))


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: any(selection.has(item, name) for name in SHAKY))
