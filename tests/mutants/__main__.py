"""Break the package in one place at a time, and see who notices.

Each mutant is applied in a copy of the project, where its test files (tests/mutants/selection.py)
run up to the first failure. Before that, these files are run on the package as it is: they have to
pass, and how long they take tells when a mutant hangs. A run that was interrupted goes on from its
record. Mutants of MariaDB and PostgreSQL need their servers' addresses in DBQUEUE_MARIADB_URL and
DBQUEUE_POSTGRESQL_URL and are left out without.
"""

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path

from tests.mutants import MUTANTS
from tests.mutants.baseline import NotGreen
from tests.mutants.campaign import Campaign
from tests.mutants.mutant import ROOT
from tests.mutants.record import Record
from tests.mutants.report import report
from tests.mutants.trial import urls

SEED = 5
SHORT = 12  # mutants


def main():
    options = parse()
    left_out = [m for m in MUTANTS if m.database not in urls()]
    chosen = [m for m in MUTANTS if m not in left_out and options.only in f"{m} {m.database}"]
    if options.short:
        chosen = random.Random(SEED).sample(chosen, min(SHORT, len(chosen)))
    signal.signal(signal.SIGTERM, end)
    began = time.monotonic()
    try:
        with Campaign(options.jobs, Record(options.record, fresh=options.fresh)) as campaign:
            verdicts = campaign.run(chosen)
    except NotGreen as error:
        sys.exit(f"The tests have to pass before anything is broken.\n{error}")
    return report(chosen, verdicts, left_out, time.monotonic() - began)


def end(number, _):
    print("Ended by TERM: the next run goes on from here.", flush=True)
    sys.exit(128 + number)


def parse():
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    add = parser.add_argument
    add("--short", action="store_true", help=f"only {SHORT} of them")
    add("--jobs", type=int, default=os.cpu_count(), help="at once (default: one for each core)")
    add("--only", default="", metavar="SUBSTRING", help="of file, text or database")
    add("--fresh", action="store_true", help="forget what was found out before")
    add(
        "--record",
        type=Path,
        default=ROOT / "build" / "mutants.jsonl",
        help="default: build/mutants.jsonl",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
