"""Any two verbs on the same jobs, one stopped between any two of its statements: it is always as
if one had come after the other."""

import random
import time

import pytest
from django.db import connection

from tests.sweeps.crossing import Crossings, all_pairs

pytestmark = pytest.mark.usefixtures("db_rows")

SEED = 5
CLOSE, LATE = 150, 75  # pairs of the short form
ENOUGH = 5  # schedules that went wrong; then the rest does not matter any more


def sample(pairs, dice):
    """Some where both find something to do, and as many where one of them comes too late."""
    close = [pair for pair in pairs if pair.is_close]
    others = [pair for pair in pairs if not pair.is_close]
    return dice.sample(close, CLOSE) + dice.sample(others, LATE)


@pytest.mark.proof
def test_two_verbs_at_once_leave_what_one_after_the_other_leaves(full):
    pairs = list(all_pairs())
    dice = random.Random(SEED)
    chosen = dice.sample(pairs, len(pairs)) if full else sample(pairs, dice)
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
