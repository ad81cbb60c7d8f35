"""Workers that take their tokens from one bucket, by a clock of our own."""

import pytest

from tests.kit.rate_simulation import simulate
from tests.kit.rates import most_in_a_period

pytestmark = pytest.mark.any_database


@pytest.mark.parametrize("limit", [5, 14, 300])
@pytest.mark.parametrize("longest", [0.02, 0.2])
def test_whatever_is_given_back_lost_or_killed_no_second_sees_more(monkeypatch, limit, longest):
    for seed in range(2 if limit == 300 else 6):
        arrivals = simulate(monkeypatch, seed, limit, longest)
        assert len(arrivals) > 10 * limit
        assert most_in_a_period(arrivals) <= limit, f"seed {seed}"
