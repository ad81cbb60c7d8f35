"""How many recipients a mailer serves in a period: the arithmetic, the row, and real workers."""

import signal
import threading
from collections import Counter
from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given, seed
from hypothesis import settings as few
from hypothesis import strategies as st

from django_dbqueue.mail import limits
from django_dbqueue.mail.conf import rates_for
from django_dbqueue.mail.limits import PERIODS, Rate, rates_of, read_taken, take, wait_for
from django_dbqueue.mail.models import Email, Mailer
from tests.kit.jobs import fresh, start_all
from tests.kit.mail import MAILER, MEMORY, deliver_to, letter, queue_all, queued, run_mail, setting
from tests.kit.processes import worker
from tests.kit.waiting import wait_until

RATES = st.lists(
    st.builds(Rate, st.integers(1, 100), st.sampled_from(["second", "minute"])),
    min_size=1,
    max_size=2,
    unique_by=lambda rate: rate.period,
)
ASKS = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 20)), max_size=60)


def play(rates, asks):
    """When each message goes out that asks until it may: (time, recipients)."""
    now, taken, gone = 1_000_000.0, {}, []
    for pause, count in asks:
        now += pause
        while wait := wait_for(taken, rates, now, count):
            now += wait
        taken = read_taken(take(taken, rates, now, count))
        gone.append((now, count))
    return gone


def most_in_a_period(gone, rate):
    return max(
        sum(count for at, count in gone if begin <= at < begin + rate.seconds) for begin, _ in gone
    )


@seed(20261122)
@few(max_examples=60, deadline=None)
@given(RATES, ASKS)
def test_no_period_wherever_it_begins_sees_more_than_the_limit(rates, asks):
    gone = play(rates, asks)
    for rate in rates if gone else []:
        largest = max(count for _, count in gone)
        # A message to more than a whole period's worth goes out alone.
        assert most_in_a_period(gone, rate) <= max(rate.limit, largest)


@pytest.mark.parametrize("period", PERIODS)
def test_who_is_always_ready_uses_nearly_all_of_the_limit(period):
    rate = Rate(100, period)
    gone = play([rate], [(0, 1)] * 1000)
    took = gone[-1][0] - gone[0][0]
    assert 0.9 <= 1000 / 100 * rate.seconds / (took + rate.seconds) <= 1


def test_a_row_stays_small_however_high_the_limit():
    rate, taken = Rate(1_000_000, "day"), {}
    for number in range(10_000):
        taken = take(taken, [rate], number * 8.6, 5)
    assert len(taken["day"]) <= limits.GROUPS_PER_PERIOD + 2


def test_a_clock_that_was_set_back_stops_no_mail():
    rate = Rate(1, "day")
    taken = take({}, [rate], 1000.0, 1)
    assert wait_for(taken, [rate], 1001.0, 1) > 86_000
    assert wait_for(taken, [rate], 500.0, 1) == 0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (14, "must be a dict"),
        ({"fortnight": 14}, "a period is one of second, minute, hour, day"),
        ({"second": 0}, r"\['second'\] must be at least 1"),
        ({"second": True}, "must be at least 1"),
        ({"second": "14"}, "must be at least 1"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named(settings, given, problem):
    with pytest.raises(ValueError, match=problem):
        rates_of(given, "LIMIT")
    settings.DBQUEUE = {"MAIL_LIMITS": {"smtp": given}}
    with pytest.raises(ImproperlyConfigured, match=r"DBQUEUE\['MAIL_LIMITS'\]\['smtp'\]"):
        rates_for("smtp")


@pytest.mark.parametrize("stored", [None, 7, {"second": 7}, {"second": [["x", 1]]}, {"week": []}])
def test_what_a_hand_wrote_into_the_row_stops_nothing(stored):
    assert wait_for(read_taken(stored), [Rate(1, "second")], 1000.0, 1) == 0


# --- the row ------------------------------------------------------------------------------------


def limited(settings, **rates):
    setting(settings, MAIL_LIMITS={"smtp": rates, "default": rates})


def ask(count=1, turn_at=None, is_urgent=False):
    return Mailer.objects.ask("smtp", count, turn_at, is_urgent)


def test_many_who_ask_at_once_get_as_many_turns_as_there_are(db_rows, settings):
    limited(settings, day=20)
    waits = []
    start_all(*[lambda: waits.extend([ask().wait for _ in range(10)]) for _ in range(4)])
    assert Counter(wait == 0 for wait in waits) == {True: 20, False: 20}


def test_over_the_limit_they_stand_in_line_and_nobody_goes_to_its_end_twice(db_rows, settings):
    limited(settings, hour=10)
    assert [ask().wait for _ in range(10)] == [0] * 10
    first, second, third = ask(), ask(), ask()
    assert 3600 < first.wait < 3800
    for before, after in [(first, second), (second, third)]:
        assert timedelta(seconds=360) < after.at - before.at < timedelta(seconds=380)
    again = ask(turn_at=first.at)
    assert again.at == first.at
    assert again.wait <= first.wait
    assert ask(is_urgent=True).wait <= 3601
    assert ask().wait > third.wait


def test_a_message_counts_once_for_each_recipient(db_rows, settings):
    limited(settings, hour=10)
    assert ask(count=6).wait == 0
    assert ask(count=5).wait > 0
    assert ask(count=4, is_urgent=True).wait == 0


def test_who_comes_anew_takes_nothing_from_those_in_the_line(db_rows, settings):
    limited(settings, hour=10)
    assert ask(count=6).wait == 0
    big = ask(count=5)
    assert ask(count=4).at > big.at


def test_a_message_to_more_than_the_limit_goes_out_when_nothing_else_does(db_rows, settings):
    limited(settings, hour=10)
    assert ask(count=50).wait == 0
    assert ask(count=1).wait > 0


def test_mail_over_the_limit_comes_back_uncharged_and_its_worker_goes_on(db_rows, settings):
    deliver_to(settings, 0, MEMORY)
    limited(settings, hour=2)
    emails = [queued("anna") for _ in range(3)]
    urgent = queued("berta", wishes={"priority": "urgent"})
    run_mail()
    states = [fresh(email).mail_state.partition(" ")[0] for email in [urgent, *emails]]
    assert states == ["sent", "sent", "scheduled", "scheduled"]
    waiting = fresh(emails[2])
    assert (waiting.attempts, waiting.errors) == (0, [])
    assert abs(waiting.turn_at - waiting.retry_at) < timedelta(seconds=1)


def test_a_mailer_that_rests_sends_nothing_and_a_longer_rest_stays(db_rows, settings):
    Mailer.objects.pause("smtp", 100, "421 later")
    Mailer.objects.pause("smtp", 10, "421 soon")
    assert 90 < ask().wait <= 110
    assert Mailer.objects.named("smtp").pause_reason == "421 later"
    Mailer.objects.resume("smtp")
    assert ask().wait == 0


# --- workers ------------------------------------------------------------------------------------


def most_in_a_second(times):
    return max(sum(begin <= at < begin + 1 for at in times) for begin in times)


@pytest.mark.timing
@pytest.mark.proof
def test_four_workers_together_keep_a_limit_and_use_most_of_it(db_rows, database_url, server, full):
    seconds = 20 if full else 3
    limit = {"DBQUEUE_MAIL_LIMITS": f'{{"{MAILER or "default"}": {{"second": 14}}}}'}
    queue_all([letter(f"anna{n}") for n in range(14 * (seconds + 4))])
    with worker(database_url, "--processes", "4", **limit, **server.environment) as process:
        wait_until(lambda: server.received)
        threading.Event().wait(seconds)
        times = [one.at for one in server.received]
        process.send(signal.SIGTERM)
        process.end()
    during = [at for at in times if at < times[0] + seconds]
    share = len(during) / (14 * seconds)
    print(f"14/s: most in any second {most_in_a_second(times)}, {share:.0%} of the limit used")
    # Those that were on their way when a second began, one a process, arrive in it as well.
    assert most_in_a_second(times) <= 14 + 4
    assert share > (0.85 if full else 0.5)
    assert Email.objects.filter(attempts__gt=1).count() == 0
