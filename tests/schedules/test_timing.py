"""When schedules tick: against a clock of which only is known what it shows."""

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ValidationError

from django_dbqueue.schedules.timing import Cron, latest, newest, parse, written
from tests.kit.schedules import START, WallClock

DAYS = 400
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
QUARTERS = (0, 15, 30, 45)


@pytest.fixture(scope="module", params=ZONES)
def clock(request):
    return request.param, WallClock(request.param, START, DAYS)


def ticks(timing, zone="UTC", start=START, days=DAYS):
    end = start + timedelta(days=days)
    return list(takewhile(lambda tick: tick <= end, parse(timing, zone).after(start)))


@pytest.mark.parametrize(
    ("timing", "times"),
    [
        ("0 3 * * *", [(3, 0)]),
        ("30 2 * * *", [(2, 30)]),
        ("15,45 1-2 * * *", [(h, m) for h in (1, 2) for m in (15, 45)]),
        ("*/15 2 * * *", [(2, m) for m in QUARTERS]),
        ("0 */2 * * *", [(h, 0) for h in range(0, 24, 2)]),
        ("45 0-22 * * *", [(h, 45) for h in range(23)]),
    ],
)
def test_a_time_of_day_is_one_tick_each_day_whatever_is_done_to_the_clocks(clock, timing, times):
    zone, wall = clock
    assert ticks(timing, zone) == wall.each_once(times)


@pytest.mark.parametrize(
    ("timing", "minutes"),
    [
        ("*/15 * * * *", QUARTERS),
        ("30 * * * *", [30]),
        ("0 0-23 * * *", [0]),
        ("15 */1 * * *", [15]),
    ],
)
def test_what_comes_every_hour_goes_by_what_the_clock_shows(clock, timing, minutes):
    zone, wall = clock
    assert ticks(timing, zone) == wall.each_hour(minutes)


def test_the_gap_of_an_hour_is_one_tick_right_after_it():
    found = ticks("0,30 2,3 * * *", "Europe/Berlin", datetime(2031, 3, 30, tzinfo=UTC), 1)
    assert [f"{tick:%H:%M}" for tick in found] == ["01:00", "01:30", "00:00"]


def test_a_doubled_hour_has_its_ticks_the_first_time():
    start = datetime(2031, 10, 26, 0, 31, tzinfo=UTC)  # 2:31, and 2:31 comes again
    assert ticks("40 2 * * *", "Europe/Berlin", start, 1) == [start.replace(minute=40)]
    assert ticks("10 2 * * *", "Europe/Berlin", start, 1) == []


def test_ticks_go_on_from_any_of_them_as_if_they_had_been_counted_from_the_start(clock):
    zone, _ = clock
    for timing in ("30 2 * * *", "*/15 1-2 * * *", "0 * * * *"):
        found = ticks(timing, zone)
        cron = parse(timing, zone)
        assert [next(cron.after(tick)) for tick in found[:-1]] == found[1:]


class Asked(ZoneInfo):
    """A time zone that is asked a bounded number of times."""

    times = 0

    def utcoffset(self, moment):
        self.times += 1
        assert self.times < 10_000, "it is asked without end"
        return super().utcoffset(moment)


@pytest.mark.parametrize("change", [datetime(2031, 3, 30, 1), datetime(2031, 10, 26, 1)])
@pytest.mark.parametrize("timing", ["* * * * *", "*/5 * * * *", "0 * * * *"])
def test_between_two_seconds_the_next_tick_is_found_at_every_change_of_the_clock(change, timing):
    change = change.replace(tzinfo=UTC)
    known = ticks(timing, "Europe/Berlin", change - timedelta(hours=3), days=1)
    for minutes in range(-90, 30):
        instant = change + timedelta(minutes=minutes, milliseconds=345)
        cron = Cron(timing, Asked.no_cache("Europe/Berlin"))
        assert next(cron.after(instant)) == next(tick for tick in known if tick > instant)
        assert next(cron.after(known[0] + timedelta(milliseconds=1))) == known[1]


def test_an_interval_counts_real_seconds_from_its_start():
    start = datetime(2031, 3, 30, 0, 0, 7, tzinfo=UTC)
    every = parse("every 90 min", "Europe/Berlin", start)
    found = list(islice(every.after(start - timedelta(days=400)), 3))
    assert found == [start + n * timedelta(minutes=90) for n in range(3)]
    assert next(every.after(found[2])) == start + timedelta(minutes=270)
    assert next(parse("every 1 d").after(START)) == datetime(2031, 1, 16, tzinfo=UTC)


def test_a_cron_expression_waits_for_its_start():
    late = START + timedelta(days=3)
    assert next(parse("0 12 * * *", "UTC", late).after(START)) == late
    assert next(parse("0 11 * * *", "UTC", late).after(START)) == late + timedelta(hours=23)


def test_only_the_days_that_it_names_have_ticks():
    found = ticks("0 9 1 * *", "America/New_York")
    assert [tick.day for tick in found] == [1] * len(found)
    assert len(found) == 13
    workdays = ticks("0 9 * * MON-FRI", "Europe/Berlin", days=14)
    assert [tick.isoweekday() for tick in workdays] == [4, 5, 1, 2, 3, 4, 5, 1, 2, 3]


@pytest.mark.parametrize("timing", ["every 1 s", "every 7 h", "0 3 * * *", "*/15 * * * *"])
def test_the_newest_ticks_of_a_span_are_the_last_of_all(timing):
    end = START + timedelta(hours=30, seconds=1)
    rows = list(takewhile(lambda tick: tick <= end, parse(timing).after(START)))
    for most in (1, 3, 1000):
        assert newest(parse(timing), START + timedelta(seconds=1), end, most) == rows[-most:]
    assert latest(parse(timing), START + timedelta(seconds=1), end) == rows[-1]
    assert latest(parse(timing), rows[-1] + timedelta(milliseconds=1), rows[-1]) is None


@pytest.mark.parametrize(
    ("timing", "word"),
    [
        ("", "every N s"),
        ("0 3 * *", "5 fields"),
        ("0 0 3 * * *", "5 fields"),
        ("@daily", "5 fields"),
        ("61 3 * * *", "Bad minute"),
        ("0 3 * * ²L", "Bad day-of-week"),
        ("0 0 30 2 *", "Bad day-of-month"),
        (",".join("0" * 200) + " 3 * * *", "200 characters"),
        ("every 0 s", "at least 1 s"),
        ("every 3651 d", "3650 days"),
        ("every 1.5 s", "every N s"),
        ("every second", "every N s"),
    ],
)
def test_what_means_nothing_is_refused_with_the_field_and_the_limit(timing, word):
    with pytest.raises(ValidationError) as refused:
        parse(timing)
    [message] = refused.value.message_dict["timing"]
    assert message.startswith("timing")
    assert word in message


def test_a_time_zone_that_there_is_not_is_refused():
    for zone in ("Mars/Base", "", "../etc/passwd", "/etc/localtime", "Europe", "\0"):
        with pytest.raises(ValidationError, match="time_zone must be an IANA name"):
            parse("0 3 * * *", zone)


def test_a_timedelta_is_written_in_its_largest_unit():
    spans = {"every 10 s": 10, "every 90 s": 90, "every 5 min": 300, "every 1 d": 86400}
    for text, seconds in spans.items():
        assert written(timedelta(seconds=seconds)) == text
    with pytest.raises(ValidationError, match="whole seconds"):
        written(timedelta(seconds=1.5))


def test_without_cronsim_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cronsim", None)
    with pytest.raises(ValidationError, match=r"django-dbqueue\[cron\]"):
        parse("0 4 31 12 *")
    assert next(parse("every 2 d").after(START)) > START
