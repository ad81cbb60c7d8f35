"""Random calls in random order, by two workers, two reapers, people and stale owners, at whatever
time the database has: after every step each row is as a model of 200 lines says.

``MACHINE_SEED=7 pytest tests/machine`` plays another game; --full plays many long ones.
"""

import os
import random
from collections import Counter

import pytest
from django.db import connection, connections
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.kit.clock import only_virtual_clock
from tests.kit.connections import forget_others
from tests.kit.jobs import forget_tables
from tests.machine.game import Game

pytestmark = pytest.mark.usefixtures("db_rows")

SEED = int(os.environ.get("MACHINE_SEED", "5"))


@pytest.fixture
def game():
    """Of this test's clock; no claim of another test has left its contention behind."""
    forget_tables()
    forget_others(connections["default"])
    with only_virtual_clock() as clock:
        yield type("Game", (Game,), {"clock": clock, "tally": Counter()})


@pytest.mark.proof
def test_whatever_is_called_in_whatever_order_every_row_is_as_the_model_says(game, full):
    long = (200, 50) if connection.vendor == "sqlite" else (100, 30)
    games, steps = long if full else (10, 30)
    own = random.Random(f"{SEED} {connection.vendor}").getrandbits(32)
    print(f"seed {SEED}: {games} games of {steps} steps")
    rules = settings(
        max_examples=games,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    run_state_machine_as_test(seed(own)(game), settings=rules)
    print(", ".join(f"{count} {what}" for what, count in sorted(game.tally.items())))
