"""The arithmetic of rates: tokens that are leased, used and come back, with a clock of our own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_dbqueue.lifecycle.policy import PROBLEMS
from django_dbqueue.lifecycle.rates import GROUPS_PER_PERIOD, MAX_LIMIT, Bucket, Rate, rates_of
from tests.kit.examples import examples
from tests.kit.rates import most_in_a_period

pytestmark = pytest.mark.any_database

HORIZON = 0.3
SECOND = Rate(14, "second")


class Workers:
    """Some workers at one bucket: each leases, uses what it has leased some time later, and writes
    that with its next lease, unless it was killed before."""

    def __init__(self, rates, late, killed=()):
        self.rates, self.late, self.killed = rates, late, set(killed)
        self.stored, self.starts = {}, []
        self.held = {}

    def turn(self, number, now, want):
        name = f"w{number}"
        bucket = Bucket(self.stored, self.rates, now)
        used = [(at, 1) for at in self.held.pop(name, []) if at <= now]
        bucket.renew(name, 0, now + 1, used)
        times = bucket.offer(want, HORIZON).times
        bucket.take(name, now + 1, times)
        self.stored = bucket.stored()
        if number in self.killed:
            self.killed.discard(number)
            return
        uses = [at + self.late for at in times]
        self.held[name] = uses
        self.starts += uses


@examples(40)
@given(
    st.integers(1, 30),
    st.floats(0, 0.2),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20)), min_size=20, max_size=120),
    st.sets(st.integers(0, 3), max_size=2),
)
def test_no_second_sees_more_than_the_rate_whoever_leases_and_dies(limit, late, turns, killed):
    workers = Workers([Rate(limit, "second")], late, killed)
    for step, (number, want) in enumerate(turns):
        # Each writes what it has used before it leases again.
        workers.turn(number, 1000 + 0.6 * step, want)
    assert most_in_a_period(workers.starts) <= limit


def test_who_leases_in_time_uses_nearly_all_of_a_rate():
    workers, now = Workers([SECOND], late=0.01), 1000.0
    while now < 1020:
        for number in range(4):
            workers.turn(number, now, 4)
            now += 0.02
    during = [at for at in workers.starts if 1001 <= at < 1019]
    assert len(during) > 0.95 * 14 * 18


@pytest.mark.parametrize("period", ["second", "minute", "day"])
def test_of_several_rates_each_is_kept(period):
    rates = [Rate(3, "second"), Rate(10, period)] if period != "second" else [SECOND]
    bucket = Bucket({}, rates, 1000.0)
    count = len(bucket.offer(100, 0.0).times)
    assert count == min(rate.limit for rate in rates)


def test_a_burst_of_one_spreads_a_rate_evenly():
    bucket = Bucket({}, [Rate(10, "second")], 1000.0, burst=1)
    times = bucket.offer(5, 1.0).times
    bucket.take("w", 1001.0, times)
    more = Bucket(bucket.stored(), bucket.rates, 1000.0, burst=1).offer(2, 1.0).times
    assert [round(at - 1000, 3) for at in times + more] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def test_the_lease_of_a_killed_worker_comes_back_a_period_after_its_end():
    bucket = Bucket({}, [SECOND], 1000.0)
    bucket.take("dead", 1001.0, bucket.offer(14, 0.0).times)
    stored = bucket.stored()
    assert Bucket(stored, [SECOND], 1002.0).offer(1, 0.0).times == []
    assert len(Bucket(stored, [SECOND], 1002.2).offer(20, 0.0).times) == 14


def test_for_a_large_message_tokens_are_saved_up_and_then_all_go_on():
    bucket = Bucket({}, [SECOND], 1000.0)
    bucket.note_used(999.5, 8)
    bucket.save_up(10)
    stored = bucket.stored()
    waiting = Bucket(stored, [SECOND], 1000.1)
    assert waiting.saving == 10
    assert waiting.offer(1, 0.0, need=waiting.saving).times == []
    assert len(Bucket(stored, [SECOND], 1000.6).offer(1, 0.0, need=10).times) == 10
    assert Bucket(stored, [SECOND], 1005.0).saving == 0


def test_a_clock_that_was_set_back_stops_nothing():
    bucket = Bucket({}, [Rate(1, "day")], 100_000.0)
    bucket.note_used(100_000.0, 1)
    assert Bucket(bucket.stored(), bucket.rates, 100_001.0).offer(1, 0.0).times == []
    assert len(Bucket(bucket.stored(), bucket.rates, 50_000.0).offer(1, 0.0).times) == 1


def test_a_row_stays_small_however_high_the_rate():
    bucket = Bucket({}, [Rate(1_000_000, "day")], 1000.0)
    for number in range(10_000):
        bucket.note_used(1000.0 + number * 8.6, 5)
    assert len(bucket.stored()["out"]["day"]) <= GROUPS_PER_PERIOD + 2


@pytest.mark.parametrize(
    "stored",
    [None, 7, {"out": 7}, {"out": {"second": [["x", 1]]}}, {"leases": [1]}, {"leases": {"a": 1}}],
)
def test_what_a_hand_wrote_into_a_row_stops_nothing(stored):
    assert len(Bucket(stored, [SECOND], 1000.0).offer(14, 0.0).times) == 14


def test_a_rate_is_read_in_words():
    assert rates_of("50/s", "rate") == [Rate(50, "second")]
    assert rates_of(" 1000/h ", "rate") == [Rate(1000, "hour")]
    assert rates_of({"second": 14, "day": 50_000}, "x") == [SECOND, Rate(50_000, "day")]


@pytest.mark.parametrize("given", ["", "50", "s/50", "5.5/s", "-5/s", "50/fortnight", "0/s", 5, []])
def test_a_rate_that_makes_no_sense_is_named(given):
    assert PROBLEMS["rate"](given)


def test_a_rate_beyond_the_limit_is_refused_with_it():
    assert rates_of({"day": MAX_LIMIT}, "rate") == [Rate(MAX_LIMIT, "day")]
    with pytest.raises(ValueError, match=f"rate must allow at most {MAX_LIMIT} a day, not"):
        rates_of({"day": MAX_LIMIT + 1}, "rate")
