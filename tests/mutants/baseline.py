"""The tests on the package as it is: whether they pass, and how long each file takes."""

import subprocess
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field

from tests.mutants.record import key_of

LONGEST = 1800  # seconds for a part of all files
LEAST, TIMES = 30, 5  # seconds for a mutant, and so many times what its files take without it


class NotGreen(Exception):
    """Tests that fail without any mutant: what they say of one means nothing."""


@dataclass
class Baseline:
    """By database and test file, the seconds that it takes."""

    seconds: dict[tuple[str, str], float] = field(default_factory=dict)

    def limit(self, database, files):
        """How long these may take with a mutant."""
        return LEAST + TIMES * sum(self.seconds[database, name] for name in files)


def look_up(record, wanted):
    """What is known of the wanted (database, file), and what is not."""
    known, missing = Baseline(), []
    for database, name in wanted:
        if line := record.known(_key(database, name)):
            known.seconds[database, name] = line["seconds"]
        else:
            missing.append((database, name))
    return known, missing


def parts(missing, number):
    """So that each database's files are run in ``number`` parts at once."""
    by_database = defaultdict(list)
    for database, name in missing:
        by_database[database].append(name)
    return [
        (database, names[start::number])
        for database, names in by_database.items()
        for start in range(number)
        if names[start::number]
    ]


def measure(copy, record, database, names):
    """Run the files and record the green ones; ``NotGreen`` names what failed."""
    with suppress(subprocess.TimeoutExpired):
        copy.run(database, names, LONGEST)
    result = copy.result()
    failed = [name for name, _ in result["failed"]]
    bad = {name.partition("::")[0] for name in failed}
    missing = [name for name in names if name not in result["seconds"]]
    for name in set(names) - bad - set(missing):
        seconds = round(result["seconds"][name], 2)
        record.add(_key(database, name), database=database, tests=name, seconds=seconds)
    if failed or missing:
        named = "\n".join(failed or missing)
        raise NotGreen(f"Without a mutant, on {database}:\n{named}\n{copy.said()}")


def _key(database, name):
    return key_of(["baseline", database], [name])
