"""Break the package in one place at a time, and see who notices.

Each mutant is applied in a copy of the project. There the tests run that it names, else the short
sweeps and then the tests of the verbs, up to the first failure. Mutants of MariaDB and PostgreSQL
need their servers' addresses in DBQUEUE_MARIADB_URL and DBQUEUE_POSTGRESQL_URL and are left out
without.
"""

import argparse
import queue
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.mutants import MUTANTS
from tests.mutants.trial import CAUGHT, Copy, urls

SEED = 5
SHORT = 12  # mutants


def main():
    options = parse()
    left_out = [m for m in MUTANTS if m.database not in urls()]
    chosen = [m for m in MUTANTS if m not in left_out and options.only in f"{m} {m.database}"]
    if options.short:
        chosen = random.Random(SEED).sample(chosen, min(SHORT, len(chosen)))
    began = time.monotonic()
    verdicts = run_all(chosen, options.jobs)
    return report(chosen, verdicts, left_out, time.monotonic() - began)


def parse():
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--short", action="store_true", help=f"only {SHORT} of them")
    parser.add_argument("--jobs", type=int, default=2, help="at once (default: 2)")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="of file, text or database")
    return parser.parse_args()


def run_all(mutants, jobs):
    with tempfile.TemporaryDirectory(prefix="mutants") as folder, ThreadPoolExecutor(jobs) as pool:
        copies = queue.SimpleQueue()
        for number in range(jobs):
            copies.put(Copy(Path(folder) / str(number), number))
        return list(pool.map(partial(run_one, copies), mutants))


def run_one(copies, mutant):
    copy = copies.get()
    try:
        verdict = copy.judge(mutant)
    finally:
        copies.put(copy)
    print(f"{verdict.word:9} {mutant.database:10} {mutant}: {verdict.by}", flush=True)
    return verdict


def report(mutants, verdicts, left_out, seconds):
    harmful = [(m, v) for m, v in zip(mutants, verdicts, strict=True) if not m.harmless]
    caught = [(m, v) for m, v in harmful if v.word == CAUGHT]
    print(f"\nseed {SEED}, {seconds:.0f} s; by")
    for by, number in Counter(v.by.partition("::")[0] for _, v in caught).most_common():
        print(f"{number:5} {by}")
    for title, found in (
        ("survived", [m for m, v in harmful if v.word != CAUGHT]),
        ("left out, no server", left_out),
    ):
        for mutant in found:
            print(f"{title}: {mutant}")
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        if mutant.harmless:
            print(f"harmless, {verdict.word}: {mutant}, since {mutant.harmless}")
    print(f"caught {len(caught)} of {len(harmful)}")
    return int(len(caught) < len(harmful))


if __name__ == "__main__":
    sys.exit(main())
