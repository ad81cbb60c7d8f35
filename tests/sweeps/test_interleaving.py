"""Any two verbs on the same jobs, one stopped between any two of its statements: it is always as
if one had come after the other."""

import time
from collections import defaultdict

import pytest
from django.db import connection

from tests.sweeps.crossing import Crossings, all_pairs
from tests.sweeps.trial import SEED, TIMES, dice

pytestmark = pytest.mark.usefixtures("db_rows", "unsynced")

# Of the short form, for each verb that is stopped: pairs in each home where both find something
# to do, and pairs where one of them comes too late.
CLOSE, LATE = 2, 1
ENOUGH = 5  # schedules that went wrong; then the rest does not matter any more


def sample(pairs, chance):
    kinds, chosen = defaultdict(list), []
    for pair in pairs:
        kinds[pair.one, pair.home if pair.is_close else None].append(pair)
    for (_, home), same in kinds.items():
        wanted = TIMES * (CLOSE if home else LATE)
        chosen += chance.sample(same, min(wanted, len(same)))
    return chosen


@pytest.mark.proof
def test_two_verbs_at_once_leave_what_one_after_the_other_leaves(full):
    pairs = list(all_pairs())
    chosen = dice().sample(pairs, len(pairs)) if full else sample(pairs, dice())
    crossings, wrong = Crossings(), []
    began = time.monotonic(), time.process_time()
    try:
        for pair in chosen:
            wrong += crossings.sweep(pair)
            if len(wrong) >= ENOUGH:
                break
    finally:
        crossings.end()
        # Also of a run that was interrupted.
        print(
            f"{connection.vendor}, seed {SEED}: {crossings.pairs} of {len(pairs)} pairs, "
            f"{crossings.schedules} schedules, {crossings.waits} of them waited for a lock, "
            f"{len(wrong)} wrong; "
            f"{time.monotonic() - began[0]:.0f} s, CPU {time.process_time() - began[1]:.0f} s"
        )
    assert not wrong, "\n".join(wrong)
