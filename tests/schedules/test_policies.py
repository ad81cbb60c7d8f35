"""What becomes of ticks that were missed, of jobs that overlap, and of targets that are broken."""

from datetime import timedelta

import pytest
from django.db import connection

from django_dbqueue.mail.models import Email
from django_dbqueue.schedules import ticking
from django_dbqueue.schedules.firing import run_due, run_now
from django_dbqueue.schedules.models import Schedule, Tick, as_utc
from django_dbqueue.schedules.planning import CATCH_UP_MAX, LATE_SECONDS, Missed
from django_dbqueue.testing import virtual_clock
from testproject.shop.models import Photo, Thumbnail
from tests.kit.schedules import START, again, notes_of, scheduled, ticks_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

HOUR = 3600


def test_a_tick_is_one_job_with_its_columns_queue_and_priority(clock):
    schedule = scheduled(
        timing="every 1 h", arguments={"text": "hello", "time_to_run": 7}, queue="slow", priority=3
    )
    assert run_due() == 0
    clock.move(HOUR)
    assert run_due() == 1
    assert run_due() == 0
    [note] = Note.objects.all()
    assert (note.text, note.queue, note.priority, note.time_to_run) == ("hello", "slow", 3, 7)
    [tick] = Tick.objects.all()
    assert (tick.job, tick.target, tick.note) == (str(note.pk), "queueapp.Note", "")
    assert ticks_of(schedule) == [START + timedelta(hours=1)]
    assert as_utc(again(schedule).next_tick) == START + timedelta(hours=2)
    assert again(schedule).count == 1


def test_a_column_whose_name_ends_as_that_of_a_foreign_key_may_be_given(clock):
    scheduled(target="dbqueue_mail.Email", arguments={"provider_id": "a 7"}, timing="every 1 h")
    clock.move(HOUR)
    run_due()
    assert Email.objects.get().provider_id == "a 7"


@pytest.mark.parametrize("name", ["photo", "photo_id"])
def test_a_foreign_key_is_given_by_its_name_or_its_column(clock, name):
    photo = Photo.objects.create(title="x", image=b"")
    scheduled(target="shop.Thumbnail", arguments={name: photo.pk}, timing="every 1 h")
    clock.move(HOUR)
    run_due()
    assert Thumbnail.objects.get().photo == photo


def test_without_a_time_zone_it_is_the_projects(settings):
    settings.TIME_ZONE = "Asia/Tokyo"
    with virtual_clock(START):
        schedule = scheduled("tokyo", "0 3 * * *", time_zone="")
    assert as_utc(schedule.next_tick) == START.replace(hour=18)


@pytest.mark.parametrize(
    ("hours", "ticks"), [(1, []), (6, [START.replace(hour=15)]), (30, [START.replace(hour=15)])]
)
def test_where_the_projects_time_zone_is_another_one_no_tick_of_before_is_missed(
    clock, settings, hours, ticks
):
    settings.TIME_ZONE = "Europe/Berlin"
    schedule = scheduled(timing="0 14 * * *", time_zone="", missed="skip")  # 13:00 in UTC
    settings.TIME_ZONE = "Atlantic/Azores"  # then it is 15:00
    clock.move(hours * HOUR)
    run_due()
    assert ticks_of(schedule) == ticks
    assert as_utc(again(schedule).next_tick) > clock.now


@pytest.mark.parametrize("days", [730, 750, 3650])
@pytest.mark.parametrize("missed", Missed.values)
def test_the_longest_intervals_tick_too(clock, days, missed):
    schedule = scheduled(timing=f"every {days} d", missed=missed)
    tick = as_utc(schedule.next_tick)
    clock.move((tick - START).total_seconds())
    run_due()
    assert ticks_of(schedule) == [tick]
    assert again(schedule).error == ""
    assert as_utc(again(schedule).next_tick) == tick + timedelta(days=days)


def test_what_a_pass_is_late_for_is_not_missed(clock):
    schedule = scheduled(timing="every 10 s", missed="skip")
    clock.move(LATE_SECONDS)
    run_due()
    assert ticks_of(schedule) == [START + timedelta(seconds=10 * n) for n in range(1, 7)]
    assert Note.objects.count() == 6


@pytest.mark.parametrize(
    ("missed", "hours"), [("skip", []), ("latest", [9]), ("all", [5, 6, 7, 8, 9])]
)
def test_missed_ticks_are_made_up_for_as_the_schedule_says(clock, missed, hours):
    schedule = scheduled(timing="0 * * * *", missed=missed, catch_up_within=5 * HOUR)
    clock.move(9 * HOUR + 600)
    run_due()
    assert ticks_of(schedule) == [START + timedelta(hours=n) for n in sorted({1, *hours})], (
        "the first that is left out has a row that says so"
    )
    assert Note.objects.count() == len(hours)
    first, *others = notes_of(schedule)
    assert first.startswith("missed: nobody looked in time")
    assert set(others) <= {""}
    clock.move(3000)
    run_due()
    assert Note.objects.count() == len(hours) + 1


def test_a_missed_tick_of_long_ago_is_the_latest_within_its_span(clock):
    schedule = scheduled(timing="0 0 1 * *", missed="latest", catch_up_within=30 * 86400)
    clock.move(20 * 86400)  # the fourth of February
    run_due()
    assert [f"{tick:%d.%m.}" for tick in ticks_of(schedule)] == ["01.02."]
    assert notes_of(schedule) == [""]


def test_no_more_missed_ticks_are_made_up_for_than_the_limit(clock, monkeypatch):
    monkeypatch.setattr(ticking, "KEPT_TICKS", 10_000)
    schedule = scheduled(timing="every 1 min", missed="all", catch_up_within=30 * 86400)
    clock.move(86400)
    run_due()
    dropped, *made_up = ticks_of(schedule)
    assert dropped == START + timedelta(minutes=1)
    assert len(made_up) == CATCH_UP_MAX == Note.objects.count()
    assert made_up[-1] == START + timedelta(days=1)


def test_the_rows_of_old_ticks_are_deleted(clock, monkeypatch):
    monkeypatch.setattr(ticking, "KEPT_TICKS", 5)
    schedule = scheduled(timing="every 1 min")
    for number in range(1, 24):
        clock.move(60)
        run_due()
        assert min(number, 5) <= len(ticks_of(schedule)) <= 10
    assert ticks_of(schedule)[-1] == START + timedelta(minutes=23)
    assert again(schedule).count == 23


def test_the_rows_of_those_that_people_asked_for_are_deleted_too(monkeypatch):
    monkeypatch.setattr(ticking, "KEPT_TICKS", 5)
    schedule = scheduled(timing="every 1 h")
    for number in range(1, 24):
        run_now(schedule, "anna")
        assert min(number, 5) <= len(ticks_of(schedule)) <= 10
    assert again(schedule).count == 23


def test_a_tick_is_skipped_while_the_last_job_has_not_ended(clock):
    schedule = scheduled(timing="every 1 h", overlap="skip")
    for _ in range(2):
        clock.move(HOUR)
        run_due()
    [note] = Note.objects.all()
    [job] = Note.objects.claim()
    clock.move(HOUR)
    run_due()
    job.complete()
    clock.move(HOUR)
    run_due()
    words = f"skipped: job {note.pk} of the last tick was"
    assert notes_of(schedule) == ["", f"{words} waiting", f"{words} running", ""]
    assert Note.objects.count() == 2


def test_the_waiting_job_of_the_last_tick_is_replaced_and_a_running_one_goes_on(clock):
    schedule = scheduled(timing="every 1 h", overlap="replace")
    clock.move(HOUR)
    run_due()
    [first] = Note.objects.all()
    clock.move(HOUR)
    run_due()
    [second] = Note.objects.all()
    Note.objects.claim()
    clock.move(HOUR)
    run_due()
    assert set(Note.objects.values_list("pk", flat=True)) == {second.pk, second.pk + 1}
    assert notes_of(schedule) == [
        "",
        f"job {first.pk} of the last tick was still waiting, and was cancelled",
        f"job {second.pk} of the last tick was running, and went on",
    ]


@pytest.mark.parametrize("overlap", ["skip", "replace"])
def test_a_job_that_somebody_asked_for_while_a_tick_is_looked_at_is_the_last_one(clock, overlap):
    schedule, asked = scheduled(timing="every 1 h", overlap=overlap), list[str]()
    clock.move(HOUR)

    def run_first(execute, sql, *rest):
        if sql.startswith("UPDATE") and not asked:
            asked.append("")  # it writes, too
            asked.append(run_now(again(schedule), "anna").job)
        return execute(sql, *rest)

    with connection.execute_wrapper(run_first):
        run_due()
    assert Note.objects.count() == 1
    assert any(f"job {asked[1]} of the last tick was" in note for note in notes_of(schedule))


def test_of_several_ticks_in_time_each_is_a_job_where_the_latest_missed_one_is_made_up_for(clock):
    schedule = scheduled(timing="every 10 s", missed="latest")
    clock.move(35)
    run_due()
    assert ticks_of(schedule) == [START + timedelta(seconds=n) for n in (10, 20, 30)]


@pytest.mark.parametrize("overlap", ["skip", "replace"])
def test_a_job_whose_table_is_gone_is_in_nobodys_way(clock, overlap):
    schedule = scheduled(timing="every 1 h", overlap=overlap)
    clock.move(HOUR)
    run_due()
    Schedule.objects.update(last_target="shop.Gone")
    clock.move(HOUR)
    run_due()
    assert (Note.objects.count(), again(schedule).error) == (2, "")


def test_a_buried_job_is_in_nobodys_way(clock):
    scheduled(timing="every 1 h", overlap="skip")
    clock.move(HOUR)
    run_due()
    Note.objects.all().bury()
    clock.move(HOUR)
    run_due()
    assert Note.objects.count() == 2


def test_a_paused_schedule_does_nothing_and_makes_up_for_nothing(clock):
    schedule = scheduled(timing="every 1 h", missed="all")
    again(schedule).pause()
    clock.move(5 * HOUR + 1)
    run_due()
    assert not Note.objects.exists()
    again(schedule).resume()
    run_due()
    assert not Note.objects.exists()
    clock.move(HOUR)
    run_due()
    assert ticks_of(schedule) == [START + timedelta(hours=6)]


def test_what_is_run_now_is_no_tick_of_the_timing(clock):
    schedule = scheduled(timing="every 1 h")
    clock.move(HOUR)
    asked = [run_now(again(schedule), "anna") for _ in range(2)]
    assert len({tick.tick for tick in asked}) == 2
    run_due()
    assert Note.objects.count() == 3
    assert notes_of(schedule) == ["", "asked for by anna", "asked for by anna"]


def test_a_save_of_what_was_read_before_a_tick_does_not_take_it_back(clock):
    stale = scheduled(timing="every 1 h")
    stale = again(stale)
    clock.move(HOUR)
    run_due()
    stale.arguments = {"text": "other"}
    stale.save()
    assert run_due() == 0
    assert again(stale).count == 1
    clock.move(HOUR)
    run_due()
    assert list(Note.objects.order_by("pk").values_list("text", flat=True)) == ["nightly", "other"]


def test_a_timing_that_is_changed_by_an_update_or_create_counts_from_now_on(clock):
    schedule = scheduled(timing="0 3 1 1 *")
    changed, _ = Schedule.objects.update_or_create(
        name=schedule.name, defaults={"timing": "every 1 h"}
    )
    assert as_utc(changed.next_tick) == as_utc(again(schedule).next_tick)
    clock.move(HOUR)
    run_due()
    assert ticks_of(schedule) == [START + timedelta(hours=1)]


def test_a_timing_counts_once_it_is_written(clock):
    schedule = again(scheduled(timing="every 1 h"))
    schedule.timing, schedule.queue = "every 1 d", "slow"
    schedule.save(update_fields=["queue"])
    row = again(schedule)
    assert (row.timing, row.queue) == ("every 1 h", "slow")
    assert as_utc(row.next_tick) == START + timedelta(hours=1)
    schedule.save()
    assert as_utc(again(schedule).next_tick) == START.replace(day=16, hour=0)


def test_a_save_of_nothing_writes_nothing(clock):
    schedule = again(scheduled(timing="every 1 h"))
    schedule.timing, schedule.queue = "every 1 d", "slow"
    schedule.save(update_fields=[])
    assert (again(schedule).timing, again(schedule).queue) == ("every 1 h", None)


@pytest.mark.parametrize("fields", [None, ["timing"], ["name", "timing", "is_paused"]])
def test_who_reads_a_timing_again_and_saves_it_loses_no_tick(clock, fields):
    stale = again(scheduled(timing="every 1 d"))
    other = again(stale)
    other.timing = "every 1 h"
    other.save()
    stale.refresh_from_db(fields=fields)
    clock.move(HOUR)
    stale.save()
    run_due()
    assert ticks_of(stale) == [START + timedelta(hours=1)]


def test_a_timing_that_is_read_when_it_is_asked_for_loses_no_tick(clock):
    schedule = scheduled(timing="every 1 h")
    deferred = Schedule.objects.defer("timing", "is_paused").get(pk=schedule.pk)
    clock.move(HOUR)
    assert (deferred.timing, deferred.is_paused) == ("every 1 h", False)
    deferred.save()
    run_due()
    assert ticks_of(schedule) == [START + timedelta(hours=1)]


def test_another_timing_counts_though_other_columns_are_read_again(clock):
    schedule = again(scheduled(timing="every 1 d"))
    schedule.timing = "every 1 h"
    schedule.refresh_from_db(fields=["time_zone"])
    schedule.save()
    assert as_utc(again(schedule).next_tick) == START + timedelta(hours=1)


def test_a_start_between_two_seconds_has_ticks_at_whole_ones(clock):
    start = START + timedelta(seconds=90, microseconds=7)
    schedule = scheduled(timing="every 1 h", starts_at=start)
    assert as_utc(again(schedule).next_tick) == START + timedelta(seconds=90)


def test_a_changed_timing_counts_from_now_on(clock):
    schedule = again(scheduled(timing="every 1 h"))
    clock.move(HOUR + 1)
    schedule.timing = "every 1 d"
    schedule.save()
    assert run_due() == 0
    assert as_utc(again(schedule).next_tick) == START.replace(day=16, hour=0)
