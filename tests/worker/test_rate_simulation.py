"""Workers that take their tokens from one bucket, by a clock of our own."""

import pytest

from tests.kit.rate_simulation import simulate, simulation
from tests.kit.rates import most_in_a_period

pytestmark = pytest.mark.any_database


@pytest.mark.parametrize("limit", [5, 14, 300])
@pytest.mark.parametrize("longest", [0.02, 0.3])
def test_whatever_is_given_back_lost_or_killed_no_second_sees_more(monkeypatch, limit, longest):
    for seed in range(2 if limit == 300 else 20):
        arrivals = simulate(monkeypatch, seed, limit, longest)
        assert len(arrivals) > 10 * limit
        assert most_in_a_period(arrivals) <= limit, f"seed {seed}"


def test_what_begins_at_the_end_of_a_lease_counts_though_its_worker_is_not_heard_of_again(
    monkeypatch,
):
    world = simulation(monkeypatch, seed=0, limit=1, longest=0.25)
    world.lost_share = 0
    silent, other = world.lease("silent"), world.lease("other")
    silent.renew(is_wanted=True)
    turn = silent.turn_of(1)
    world.now = silent.until
    assert turn.begin()
    arrived_at = world.now + world.longest
    while not other.spare:
        world.now += 0.01
        other.renew(is_wanted=True)
    assert other.spare[0] >= arrived_at + 1
