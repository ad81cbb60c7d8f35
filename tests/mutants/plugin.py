"""Loaded into pytest where mutants are tried: which tests run, in which order; what came of them.

Tests that start processes come last. On a busy machine they may fail without any mutant.
"""

import json
import os
from base64 import b64encode
from collections import defaultdict

import pytest

from tests.kit import selection

# In the copy's folder: the tests that are to run, in order; and what came of the run.
CHOSEN, RESULT = "chosen.json", "result.json"
LINES = "DBQUEUE_MUTANTS_LINES"  # in the environment: note which lines each test reaches
SHAKY = ("process", "timing", "browser")


def is_shaky(item):
    return any(selection.has(item, name) for name in SHAKY)


class Result:
    """By test its seconds, whether it is shaky, and the lines it reached; and who failed."""

    def __init__(self, root):
        self.root = root
        self.items = {}
        self.files = set()
        self.failed = []
        self.lines = Lines(root) if os.environ.get(LINES) else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        path = self.root / CHOSEN
        if path.exists():
            place = {name: number for number, name in enumerate(json.loads(path.read_text()))}
            items[:] = [item for item in items if item.nodeid in place]
            items.sort(key=lambda item: place[item.nodeid])
        else:
            items.sort(key=is_shaky)
        self.items = {item.nodeid: {"seconds": 0, "shaky": is_shaky(item)} for item in items}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        if self.lines:
            self.lines.begin(item.nodeid)

    def pytest_collectreport(self, report):
        if report.nodeid.endswith(".py"):
            self.files.add(report.nodeid)
        self._note(report)

    def pytest_runtest_logreport(self, report):
        self.items[report.nodeid]["seconds"] += report.duration
        self._note(report)

    def _note(self, report):
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def pytest_sessionfinish(self):
        if self.lines:
            for name, reached in self.lines.by_test().items():
                self.items[name]["lines"] = reached
        found = {"items": self.items, "files": sorted(self.files), "failed": self.failed}
        (self.root / RESULT).write_text(json.dumps(found))


class Lines:
    """The lines of the package that each test reaches in this process."""

    def __init__(self, root):
        from coverage import Coverage

        self.root = root
        self.coverage = Coverage(
            data_file=None, config_file=False, source=[str(root / "django_dbqueue")]
        )
        self.coverage.start()

    def begin(self, test):
        self.coverage.switch_context(test)

    def by_test(self):
        """By test and file of the package, the numbers of the lines, as coverage packs them."""
        from coverage.numbits import nums_to_numbits

        self.coverage.stop()
        data, found = self.coverage.get_data(), defaultdict(lambda: defaultdict(list))
        for path in data.measured_files():
            name = os.path.relpath(path, self.root)
            for line, tests in data.contexts_by_lineno(path).items():
                for test in filter(None, tests):
                    found[test][name].append(line)
        return {
            test: {
                name: b64encode(nums_to_numbits(lines)).decode() for name, lines in files.items()
            }
            for test, files in found.items()
        }


def pytest_configure(config):
    config.pluginmanager.register(Result(config.rootpath))
