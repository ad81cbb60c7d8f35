"""max_age: how long a job may wait that says nothing of it."""

from datetime import UTC, datetime, timedelta
from enum import IntEnum
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from django_dbqueue.fields import DbNow
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker, virtual_clock
from tests.kit.bounds import limits
from tests.kit.jobs import fresh, overwrite
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
HOUR = 3600
WAYS = {
    "create": Note.objects.create,
    "enqueue": lambda **columns: Note.objects.enqueue(dedup_key="a", **columns),
    "bulk_create": lambda **columns: Note.objects.bulk_create([Note(**columns)]),
    "enqueue_many": lambda **columns: Note.objects.enqueue_many([columns]),
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def age(job=None):
    """Seconds from when it was made until it expires."""
    job = job or Note.objects.get()
    return None if job.expires_at is None else (job.expires_at - job.created_at).total_seconds()


def patience():
    """Seconds from when it is due until it expires."""
    job = Note.objects.get()
    return (job.expires_at - job.retry_at).total_seconds()


@ways
def test_a_job_that_says_nothing_expires(way):
    with limits(max_age=HOUR):
        way(text="a")
    assert age() == pytest.approx(HOUR, abs=2)


@ways
def test_what_a_job_says_itself_counts(way):
    with limits(max_age=HOUR):
        way(expires_at=timezone.now() + timedelta(seconds=60))
    assert age() == pytest.approx(60, abs=2)


@ways
def test_a_delayed_job_waits_from_when_it_is_due(way):
    with limits(max_age=HOUR):
        way(retry_at=timezone.now() + timedelta(seconds=HOUR))
    assert age() == pytest.approx(2 * HOUR, abs=2)


@pytest.mark.parametrize("is_zoned", [True, False])
@ways
def test_a_change_of_clocks_takes_nothing_of_its_age(way, is_zoned, settings):
    settings.USE_TZ, settings.TIME_ZONE = is_zoned, "Europe/Berlin"
    zone = ZoneInfo("Europe/Berlin") if is_zoned else None
    with limits(max_age=5400):
        way(retry_at=datetime(2027, 3, 28, 1, 30, tzinfo=zone))
    settings.USE_TZ = True
    assert patience() == 5400


@ways
def test_a_due_time_may_be_text(way):
    with limits(max_age=60):
        way(retry_at="2027-03-28T01:30:00+01:00")
    assert patience() == 60


def test_so_does_one_with_a_delay():
    with limits(max_age=HOUR):
        Note.objects.enqueue(delay=HOUR)
        Note.objects.enqueue_many([{"text": "many"}], delay=HOUR)
    assert [age(job) for job in Note.objects.all()] == pytest.approx([2 * HOUR] * 2, abs=2)


@ways
def test_another_queue_has_its_own(way):
    with limits("queueapp.note:mayflies", max_age=1):
        way(queue="default")
    assert age() is None


def test_the_new_job_knows_when_it_expires():
    with limits(max_age=HOUR):
        job = Note.objects.create()
    assert job.expires_at == fresh(job).expires_at


def again(**columns):
    return Note.objects.enqueue(dedup_key="a", **columns)


MOVED_ON = {
    "debounce": {"debounce": 50},
    "debounce with a longest wait": {"debounce": 50, "max_wait": 500},
    "replaced delay": {"on_duplicate": "replace", "delay": 50},
    "both": {"on_duplicate": "replace", "debounce": 50},
}


@pytest.mark.parametrize("how", MOVED_ON.values(), ids=MOVED_ON)
def test_calls_that_move_its_time_on_move_its_end_too(how):
    with limits(max_age=20), virtual_clock() as clock:
        again(text="a", **how)
        for _ in range(3):
            clock.move(40)
            assert again(text="b", **how).outcome in {"debounced", "replaced"}
        assert patience() == pytest.approx(20, abs=1)
        with InlineWorker("queueapp.note", clock=clock) as worker:
            worker.drain()
    assert Note.objects.get().state == "done"


def test_a_time_that_is_replaced_by_a_moment_moves_its_end_too():
    with limits(max_age=20):
        again()
        again(on_duplicate="replace", retry_at=timezone.now() + timedelta(seconds=HOUR))
    assert patience() == pytest.approx(20, abs=1)


BY_HAND = {
    "seconds": lambda jobs: jobs.reschedule(7 * HOUR),
    "a moment": lambda jobs: jobs.reschedule(timezone.now() + timedelta(hours=7)),
    "a kick": lambda jobs: jobs.kick(due=7 * HOUR),
}
by_hand = pytest.mark.parametrize("verb", BY_HAND.values(), ids=BY_HAND)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@by_hand
def test_who_moves_it_to_another_time_moves_its_end_too(way, verb):
    with limits(max_age=HOUR), virtual_clock() as clock:
        way(retry_at=timezone.now() + timedelta(seconds=60))
        assert verb(Note.objects.all()).changed == 1
        assert patience() == pytest.approx(HOUR, abs=1)
        clock.move(7 * HOUR + 60)
        with InlineWorker("queueapp.note", clock=clock) as worker:
            worker.drain()
    assert Note.objects.get().state == "done"


@by_hand
def test_who_moves_jobs_of_several_queues_gives_each_the_age_of_its_own(verb):
    with limits("queueapp.note:mayflies", max_age=HOUR):
        for queue in ("mayflies", "default"):
            Note.objects.create(queue=queue, retry_at=timezone.now() + timedelta(seconds=60))
        verb(Note.objects.all())
    assert Note.objects.get(queue="default").expires_at is None
    row = Note.objects.get(queue="mayflies")
    assert (row.expires_at - row.retry_at).total_seconds() == pytest.approx(HOUR, abs=1)


@pytest.mark.parametrize("seconds", [60, 9 * HOUR])
@by_hand
def test_who_moves_it_leaves_an_end_of_its_own_that_is_sooner_or_late_enough(verb, seconds):
    end = timezone.now() + timedelta(seconds=seconds)
    with limits(max_age=HOUR):
        Note.objects.create(expires_at=end, retry_at=timezone.now() + timedelta(seconds=30))
        verb(Note.objects.all())
    assert Note.objects.get().expires_at == end


def test_a_job_may_be_moved_to_the_end_of_the_calendar():
    with limits(max_age=HOUR):
        end = Note.objects.create().expires_at
        Note.objects.all().reschedule(datetime(9999, 12, 31, 23, 59, tzinfo=UTC))
    assert Note.objects.get().expires_at == end


def test_its_end_is_no_later_than_the_longest_wait_allows():
    with limits(max_age=20):
        job, _ = again(debounce=30, max_wait=60)
        overwrite(job, created_at=DbNow(plus=-50))
        again(debounce=30, max_wait=60)
        assert patience() == pytest.approx(20, abs=1)
        overwrite(job, created_at=DbNow(plus=-70), expires_at=DbNow(plus=5))
        end = fresh(job).expires_at
        again(debounce=30, max_wait=60)
    assert fresh(job).expires_at == end


def test_what_a_replacing_call_says_itself_counts():
    with limits(max_age=20):
        again(delay=30)
        end = timezone.now() + timedelta(seconds=HOUR)
        again(on_duplicate="replace", delay=60, expires_at=end)
        assert Note.objects.get().expires_at == end
        again(debounce=60, expires_at=end + timedelta(seconds=5))
    assert Note.objects.get().expires_at == end


def test_a_call_that_leaves_its_time_leaves_its_end():
    with limits(max_age=20):
        job, _ = again()
        overwrite(job, expires_at=DbNow(plus=5))
        end = fresh(job).expires_at
        again(on_duplicate="replace", text="b")
    row = fresh(job)
    assert (row.text, row.expires_at, row.status) == ("b", end, Status.READY)


def test_a_replacing_call_that_says_it_has_no_end_of_its_own_gets_one():
    with limits(max_age=20):
        again()
        again(on_duplicate="replace", delay=60, expires_at=None)
    assert patience() == pytest.approx(20, abs=1)


def test_without_an_age_its_end_stays():
    end = timezone.now() + timedelta(seconds=HOUR)
    again(delay=30, expires_at=end)
    again(debounce=60)
    again(on_duplicate="replace", delay=60)
    assert Note.objects.get().expires_at == end


class Age(IntEnum):
    SHORT = 20


@pytest.mark.parametrize("how", MOVED_ON.values(), ids=MOVED_ON)
def test_an_age_may_be_any_number(how):
    with limits(max_age=Age.SHORT):
        again(**how)
        again(**how)
    assert patience() == pytest.approx(20, abs=1)
