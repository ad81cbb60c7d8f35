"""What is tried, by a seed that is printed and can be given again, and how often."""

import os
import random
import traceback

from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded

SEED = int(os.environ.get("FUZZ_SEED", "1"))


class Tally:
    """Counts inputs and keeps what went wrong."""

    def __init__(self, what):
        self.what = what
        self.random = random.Random(f"{SEED} {what} {connection.vendor}")
        self.tried = 0
        self.refused = 0
        self.crashes = []

    def crashed(self, doing, error):
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f"{one.name}:{one.lineno}" for one in frames if "django_dbqueue/" in one.filename]
        self.crashes.append(f"{doing}: {type(error).__name__}: {error} in {' '.join(ours[-3:])}")

    def end(self, least):
        """Say what was tried; fail when that was too little, or something crashed."""
        print(
            f"\nfuzz {self.what}: FUZZ_SEED={SEED}, {self.tried} inputs, "
            f"{self.refused} more refused, {len(self.crashes)} crashes"
        )
        for crash in self.crashes:
            print(" ", crash)
        assert not self.crashes, f"{len(self.crashes)} crashes"
        assert self.tried >= least


def drawn(strategy, count, judge):
    """Have hypothesis draw so many examples; each goes to ``judge``, which raises where it is a
    crash: then the smallest such example is shown."""

    @seeded(SEED)
    @settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def run(value):
        judge(value)

    run()
