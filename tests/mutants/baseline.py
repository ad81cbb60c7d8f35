"""The tests on the package as it is: whether they pass, how long each takes, what it reaches."""

import subprocess
from base64 import b64decode
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass

from coverage.numbits import numbits_any_intersection, nums_to_numbits

from tests.mutants.record import key_of

LONGEST = 1800  # seconds for a part of all files


class NotGreen(Exception):
    """Tests that fail without any mutant: what they say of one means nothing."""


@dataclass(frozen=True)
class Known:
    """One test: how long it takes, whether processes or the clock may make it fail, and, by file
    of the package, the lines that it reaches."""

    name: str
    seconds: float
    is_shaky: bool
    lines: dict[str, bytes]

    @property
    def file(self):
        return self.name.partition("::")[0]

    def reaches(self, path, numbits):
        return path in self.lines and numbits_any_intersection(self.lines[path], numbits)


def look_up(record, wanted):
    """By database the tests of the wanted (database, file) that are known; and the others."""
    tests, missing = defaultdict(list), []
    for database, file in wanted:
        if line := record.known(_key(database, file)):
            tests[database] += [_known(name, one) for name, one in line["items"].items()]
        else:
            missing.append((database, file))
    return tests, missing


def _known(name, one):
    lines = {path: b64decode(packed) for path, packed in one.get("lines", {}).items()}
    return Known(name, one["seconds"], one["shaky"], lines)


def packed(lines):
    return nums_to_numbits(lines)


def parts(missing, number):
    """So that each database's files are run in ``number`` parts."""
    by_database = defaultdict(list)
    for database, file in missing:
        by_database[database].append(file)
    return [
        (database, files[start::number])
        for database, files in by_database.items()
        for start in range(number)
        if files[start::number]
    ]


def measure(copy, record, database, files):
    """Run the files and record the green ones; ``NotGreen`` names what failed."""
    with suppress(subprocess.TimeoutExpired):
        copy.measure(database, files, LONGEST)
    result = copy.result()
    failed = result["failed"] + [file for file in files if file not in result["files"]]
    for file in sorted(set(files) - {name.partition("::")[0] for name in failed}):
        items = {n: one for n, one in result["items"].items() if n.partition("::")[0] == file}
        record.add(_key(database, file), tests=file, database=database, items=items)
    if failed:
        named = "\n".join(failed)
        raise NotGreen(f"Without a mutant, on {database}:\n{named}\n{copy.said()}")


def _key(database, file):
    return key_of(["baseline", database], [file])
