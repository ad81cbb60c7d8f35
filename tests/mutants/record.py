"""What was found out, line by line in a file: a run that was interrupted goes on from there.

A line counts as long as the package, the tests that said so and their helpers are unchanged.
"""

import hashlib
import json
import threading
from contextlib import suppress
from functools import cache

from tests.mutants.mutant import ROOT

# What every test depends on.
COMMON = (
    *("django_dbqueue", "testproject", "setup.cfg"),
    *("tests/conftest.py", "tests/kit", "tests/queueapp"),
)


class Record:
    def __init__(self, path, *, fresh=False):
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        lines = list(_lines(path))
        # A run that was killed may have left half of a line.
        with path.open("a") as file:
            file.write("\n")
        self._by_key = {line["key"]: line for line in lines}
        self._by_edit = {str(line["edit"]): line for line in lines if "edit" in line}

    def known(self, key):
        """The line of this key, None where nothing is known."""
        return self._by_key.get(key)

    def last_caught_by(self, mutant):
        """The test that caught it last, whatever has changed since then; or ''."""
        return self._by_edit.get(str(mutant.edit), {}).get("by", "")

    def add(self, key, **columns):
        line = {"key": key, **columns}
        with self._lock:
            self._by_key[key] = line
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def _lines(path):
    for text in path.read_text().splitlines() if path.exists() else ():
        with suppress(ValueError):
            yield json.loads(text)


def key_of(what, files, root=ROOT):
    """Of something that was found out with these test files."""
    names = [*COMMON, *sorted(files)]
    # Files with helpers have one hash together.
    parts = [json.dumps([what, names]), *(_hash_of(root, name) for name in names)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def _has_helpers(folder):
    """Whether more than tests is in it, so that they may need one another."""
    return any(not file.name.startswith(("test_", "__")) for file in folder.glob("*.py"))


@cache
def _hash_of(root, name):
    """Of a file, with those beside it where it is in a folder of its own; or of a folder."""
    path = root / name
    is_apart = path.name.startswith("test_") and _has_helpers(path.parent)
    folder = path.parent if is_apart else path
    files = sorted(folder.rglob("*")) if folder.is_dir() else [folder]
    digest = hashlib.sha256()
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(root)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()
