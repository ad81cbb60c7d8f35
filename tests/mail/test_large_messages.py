"""Messages to more recipients than the limit has tokens keep it, too: on the average."""

import pytest

from django_dbqueue.mail.limits import Rate, take, used, wait_for


@pytest.mark.parametrize("period", ["second", "minute", "hour", "day"])
def test_messages_to_more_than_the_limit_keep_it_on_the_average(period):
    rate, now, taken, sent = Rate(14, period), 1_000_000.0, {}, 0
    end = now + 100 * rate.seconds
    while now < end:
        if not (wait := wait_for(taken, [rate], now, 50)):
            taken, sent = take(taken, [rate], now, 50), sent + 50
        now += wait or rate.seconds / 100
    assert 0.8 * 1400 < sent <= 1400 + 50


def test_afterwards_all_of_the_limit_is_there_again():
    rate = Rate(14, "second")
    taken = take({}, [rate], 1000.0, 50)
    assert wait_for(taken, [rate], 1002.0, 1) == pytest.approx(50 / 14 - 2, abs=0.1)
    assert used(taken, rate, 1002.0) == 50
    assert wait_for(taken, [rate], 1003.7, 14) == 0
