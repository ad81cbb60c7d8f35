"""The two days of a year on which local time has a gap and a fold, on a clock that the test sets:
what was asked for by local time comes at that instant, once."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import override_settings
from django.utils import timezone

from django_dbqueue.lifecycle import promotion, reap
from django_dbqueue.operate.cursor import decode, encode
from django_dbqueue.operate.orders import BY_TIME
from django_dbqueue.states import Status
from tests.kit.clock import only_virtual_clock
from tests.kit.jobs import claim_one, forget_tables, fresh, table
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

# The last whole minute before the clocks change, in UTC, and by how much: in spring, in autumn.
DAYS = [
    ("Europe/Berlin", datetime(2027, 3, 28, 1, tzinfo=UTC), 3600),
    ("Europe/Berlin", datetime(2027, 10, 31, 1, tzinfo=UTC), -3600),
    ("America/Santiago", datetime(2027, 9, 5, 4, tzinfo=UTC), 3600),
    ("America/Santiago", datetime(2027, 4, 4, 3, tzinfo=UTC), -3600),
    ("Australia/Lord_Howe", datetime(2027, 10, 2, 15, 30, tzinfo=UTC), 1800),
    ("Australia/Lord_Howe", datetime(2027, 4, 3, 15, tzinfo=UTC), -1800),
]
MINUTES = range(-60, 61, 30)


@pytest.fixture(params=DAYS, ids=lambda day: f"{day[0]} {day[1]:%b}")
def day(request):
    """The project in a zone whose clocks change: the zone, and when."""
    name, change, _ = request.param
    with override_settings(TIME_ZONE=name):
        forget_tables()
        yield ZoneInfo(name), change
    forget_tables()


def locals_around(zone, change):
    """Local times of that night, as people may write them: each wall time, first and second."""
    night = {
        (change + timedelta(minutes=minutes)).astimezone(zone).replace(tzinfo=None, fold=0)
        for minutes in MINUTES
    }
    gap = {wall + timedelta(minutes=30) for wall in night}
    return [wall.replace(fold=fold) for wall in sorted(night | gap) for fold in (0, 1)]


def instant(wall, zone):
    return wall.replace(tzinfo=zone).astimezone(UTC)


def play_night(clock, due):
    """Let the clock go through the night; when each job was first ready."""
    came = {}
    for moment in sorted({*due.values()}):
        for now in (moment - timedelta(milliseconds=1), moment):
            clock.now = now
            promotion.promote(table())
            came = dict.fromkeys(Note.objects.ready().values_list("pk", flat=True), now) | came
    return came


def test_these_are_the_nights_on_which_the_clocks_change():
    for name, change, seconds in DAYS:
        zone = ZoneInfo(name)
        before, after = (change - timedelta(minutes=1)), (change + timedelta(minutes=1))
        moved = after.astimezone(zone).utcoffset() - before.astimezone(zone).utcoffset()
        assert moved == timedelta(seconds=seconds)


def test_a_job_is_due_at_its_local_time_in_the_gap_and_in_the_fold(day):
    zone, change = day
    with only_virtual_clock(change - timedelta(hours=9)) as clock:
        due = {}
        for wall in locals_around(zone, change):
            job, _ = Note.objects.enqueue(retry_at=wall.replace(tzinfo=zone))
            due[job.pk] = instant(wall, zone)
            assert fresh(job).retry_at == due[job.pk]
        assert play_night(clock, due) == due


def test_a_delay_is_as_long_as_it_says_whatever_the_local_clocks_do(day):
    _, change = day
    begin = change - timedelta(minutes=30)
    with only_virtual_clock(begin) as clock:
        due = {}
        for minutes in (1, 29, 30, 31, 60, 90, 24 * 60):
            job, _ = Note.objects.enqueue(delay=60 * minutes)
            due[job.pk] = begin + timedelta(minutes=minutes)
        assert play_night(clock, due) == due


def test_a_retry_and_a_time_to_run_are_as_long_as_they_say(day):
    _, change = day
    begin = change - timedelta(minutes=30)
    with only_virtual_clock(begin) as clock:
        Note.objects.create(time_to_run=3600)
        job = claim_one()
        assert fresh(job).retry_at == begin + timedelta(hours=1)
        clock.move(3599)
        assert reap.find_overdue(table()) == []
        job.release(delay=3600)
        again = clock.now + timedelta(hours=1)
        assert play_night(clock, {job.pk: again}) == {job.pk: again}


def test_a_job_expires_at_its_local_time_in_the_gap_and_in_the_fold(day):
    zone, change = day
    with only_virtual_clock(change - timedelta(hours=9)) as clock:
        for wall in locals_around(zone, change):
            for early, has_expired in ((1, False), (0, True)):
                clock.now = instant(wall, zone) - timedelta(milliseconds=early)
                Note.objects.create(expires_at=wall.replace(tzinfo=zone))
                job = claim_one()
                assert job.has_expired == has_expired
                job.complete()


def test_a_pause_is_as_long_as_it_says(day):
    _, change = day
    with only_virtual_clock(change - timedelta(minutes=30)) as clock:
        Note.objects.create()
        Note.objects.pause(seconds=3600)
        clock.move(3599)
        assert Note.objects.claim() == []
        clock.move(1)
        assert len(Note.objects.claim()) == 1


def test_a_naive_local_time_is_refused(day):
    zone, change = day
    for wall in locals_around(zone, change):
        for column in ("retry_at", "expires_at"):
            with pytest.raises(ValueError, match="naive"):
                Note.objects.enqueue(**{column: wall})
    assert not Note.objects.exists()


def test_without_use_tz_a_naive_local_time_is_the_projects(day):
    """In the fold the first one is meant unless ``fold`` says otherwise; what is read says it."""
    zone, change = day
    with override_settings(USE_TZ=False), only_virtual_clock(change - timedelta(hours=9)) as clock:
        forget_tables()
        due = {}
        for wall in locals_around(zone, change):
            job, _ = Note.objects.enqueue(retry_at=wall)
            read = fresh(job).retry_at
            assert timezone.is_naive(read)
            assert instant(read, zone) == instant(wall, zone)
            due[job.pk] = instant(wall, zone)
        assert play_night(clock, due) == due
    forget_tables()


def test_without_use_tz_a_list_goes_on_at_the_same_instant(day):
    """An hour that clocks show twice is not met twice, nor passed over."""
    zone, change = day
    with override_settings(USE_TZ=False):
        for wall in locals_around(zone, change):
            cursor = decode(Note, BY_TIME, encode((wall, 7)))
            assert cursor is not None
            assert timezone.is_naive(cursor[0])
            assert (instant(cursor[0], zone), cursor[1]) == (instant(wall, zone), 7)


def test_a_database_whose_clock_jumps_back_makes_nothing_early_or_twice():
    with only_virtual_clock() as clock:
        Note.objects.create(time_to_run=30)
        late, _ = Note.objects.enqueue(delay=60)
        job = claim_one()
        clock.move(-600)
        assert (promotion.promote(table()), reap.find_overdue(table())) == (0, [])
        assert Note.objects.claim() == []
        clock.move(600 + 59)
        assert promotion.promote(table()) == 0
        job.complete()
        clock.move(1)
        assert promotion.promote(table()) == 1
        assert [one.pk for one in Note.objects.claim(5)] == [late.pk]
        assert fresh(job).status == Status.DONE
