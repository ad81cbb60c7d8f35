"""Messages to more recipients than the limit has tokens keep it, too: on the average."""

import pytest

from django_dbqueue.lifecycle.rates import Bucket, Rate


@pytest.mark.parametrize("period", ["second", "minute", "hour", "day"])
def test_messages_to_more_than_the_limit_keep_it_on_the_average(period):
    rate, now, stored, sent = Rate(14, period), 1_000_000.0, {}, 0
    end = now + 100 * rate.seconds
    while now < end:
        bucket = Bucket(stored, [rate], now)
        if bucket.offer(50, 0.0, need=50).times:
            bucket.note_used(now, 50)
            sent += 50
        stored = bucket.stored()
        now += rate.seconds / 100
    assert 0.8 * 1400 < sent <= 1400 + 50


def test_afterwards_all_of_the_limit_is_there_again():
    rate = Rate(14, "second")
    bucket = Bucket({}, [rate], 1000.0)
    bucket.note_used(1000.0, 50)
    bucket.now = 1002.0
    assert bucket.offer(1, 0.0).wait == pytest.approx(50 / 14 - 2, abs=0.1)
    assert bucket.used(rate) == 50
    assert len(Bucket(bucket.stored(), [rate], 1003.7).offer(14, 0.0).times) == 14
