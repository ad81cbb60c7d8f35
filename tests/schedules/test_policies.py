"""What becomes of ticks that were missed, of jobs that overlap, and of targets that are broken."""

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import connection

from django_dbqueue.schedules import firing
from django_dbqueue.schedules.firing import run_due, run_now
from django_dbqueue.schedules.models import Schedule, Tick, as_utc
from django_dbqueue.schedules.planning import CATCH_UP_MAX, LATE_SECONDS
from django_dbqueue.testing import virtual_clock
from tests.kit.schedules import START, again, notes_of, scheduled, ticks_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

HOUR = 3600


@pytest.fixture
def clock():
    with virtual_clock(START) as clock:
        yield clock


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
    monkeypatch.setattr(firing, "KEPT_TICKS", 10_000)
    schedule = scheduled(timing="every 1 min", missed="all", catch_up_within=30 * 86400)
    clock.move(86400)
    run_due()
    dropped, *made_up = ticks_of(schedule)
    assert dropped == START + timedelta(minutes=1)
    assert len(made_up) == CATCH_UP_MAX == Note.objects.count()
    assert made_up[-1] == START + timedelta(days=1)


def test_the_rows_of_old_ticks_are_deleted(clock):
    schedule = scheduled(timing="every 1 min")
    for _ in range(230):
        clock.move(60)
        run_due()
    found = ticks_of(schedule)
    assert firing.KEPT_TICKS <= len(found) <= 2 * firing.KEPT_TICKS
    assert found[-1] == START + timedelta(minutes=230)
    assert again(schedule).count == 230


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


def test_a_changed_timing_counts_from_now_on(clock):
    schedule = again(scheduled(timing="every 1 h"))
    clock.move(HOUR + 1)
    schedule.timing = "every 1 d"
    schedule.save()
    assert run_due() == 0
    assert as_utc(again(schedule).next_tick) == START.replace(day=16, hour=0)


def test_a_broken_target_holds_up_nobody_and_is_tried_again(clock):
    broken, whole = scheduled("a", "every 1 h"), scheduled("b", "every 1 h")
    Schedule.objects.filter(pk=broken.pk).update(target="shop.Gone")
    clock.move(HOUR)
    run_due()
    assert ticks_of(broken) == []
    assert ticks_of(whole) == [START + timedelta(hours=1)]
    assert "no model 'shop.Gone' is installed" in again(broken).error
    clock.move(10)
    assert run_due() == 0, "not at once"
    Schedule.objects.filter(pk=broken.pk).update(target="queueapp.Note")
    clock.move(firing.RETRY_SECONDS)
    run_due()
    assert ticks_of(broken) == [START + timedelta(hours=1)]
    assert again(broken).error == ""


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({"timing": "0 0 30 2 *"}, "timing"),
        ({"time_zone": "Mars/Base", "timing": "0 3 * * *"}, "time_zone"),
        ({"kind": "carrier pigeon"}, "kind"),
        ({"arguments": ["no", "dict"]}, "arguments"),
        ({"arguments": {"texts": "x"}}, "arguments: 'texts' is no column"),
        ({"arguments": {"seconds": "x"}}, "arguments: seconds"),
    ],
)
def test_whatever_a_hand_wrote_into_the_row_stops_nobody(clock, columns, word):
    broken, whole = scheduled("a", "every 1 h"), scheduled("b", "every 1 h")
    Schedule.objects.filter(pk=broken.pk).update(**columns)
    clock.move(HOUR)
    run_due()
    assert word in again(broken).error
    assert len(ticks_of(whole)) == 1
    assert Note.objects.count() == 1


def test_a_job_that_the_database_refuses_holds_up_nobody(clock):
    """Some databases say so at the commit, which is that of others, too."""
    broken = scheduled("a", "every 1 h", target="shop.Thumbnail", arguments={"photo": 987654})
    whole = scheduled("b", "every 1 h")
    clock.move(HOUR)
    run_due()
    assert "IntegrityError" in again(broken).error
    assert len(ticks_of(whole)) == 1
    assert Note.objects.count() == 1


def test_what_is_undone_with_others_is_done_again_as_if_it_had_not_been(clock):
    """A neighbour's job fails their common transaction, in which the last job was cancelled."""
    scheduled("a", "every 1 h", overlap="replace")
    clock.move(HOUR)
    run_due()
    scheduled("b", "every 1 h", target="shop.Thumbnail", arguments={"photo": 987654})
    clock.move(HOUR)
    run_due()
    assert Note.objects.count() == 1


def test_a_tick_that_has_its_row_is_not_enqueued_again(clock):
    """Somebody has set the schedule back, or the clock of the database was."""
    schedule = scheduled(timing="every 1 h", missed="all")
    clock.move(HOUR)
    run_due()
    first = START + timedelta(hours=1)
    clock.move(HOUR)
    Schedule.objects.update(next_tick=first, next_at=first)
    run_due()
    assert ticks_of(schedule) == [first, first + timedelta(hours=1)]
    assert Note.objects.count() == 2
    assert again(schedule).error == ""


def test_who_pauses_while_a_tick_is_looked_at_has_it_paused(clock):
    schedule = scheduled(timing="every 1 h")
    clock.move(HOUR)

    def pause_first(execute, sql, *rest):
        if sql.startswith("UPDATE") and not paused:
            paused.append(schedule)
            again(schedule).pause()
        return execute(sql, *rest)

    paused: list[Schedule] = []
    with connection.execute_wrapper(pause_first):
        run_due()
    assert not Note.objects.exists()
    assert again(schedule).next_tick is None


def test_mending_a_schedule_has_it_tried_at_once(clock):
    schedule = scheduled(timing="every 1 h")
    Schedule.objects.filter(pk=schedule.pk).update(target="shop.Gone")
    clock.move(HOUR)
    run_due()
    row = again(schedule)
    row.target = "queueapp.Note"
    row.save()
    run_due()
    assert ticks_of(schedule) == [START + timedelta(hours=1)]


@pytest.mark.parametrize(
    ("columns", "field", "words"),
    [
        ({"timing": "often"}, "timing", "cron expression of 5 fields"),
        ({"time_zone": "Mars/Base"}, "time_zone", "IANA name"),
        ({"target": "shop.Gone"}, "target", "no model 'shop.Gone' is installed"),
        ({"target": "auth.User"}, "target", "no queue table"),
        ({"kind": "pigeon"}, "kind", "one of table, task"),
        ({"arguments": [1]}, "arguments", "must be a dict"),
        ({"arguments": {"owner": "me"}}, "arguments", "no column of queueapp.Note that may be"),
        ({"arguments": {"id": 1}}, "arguments", "no column"),
        ({"arguments": {"seconds": "soon"}}, "arguments", "seconds"),
        ({"arguments": {"action": "x" * 31}}, "arguments", "30 characters"),
        ({"queue": "x" * 201}, "queue", "200"),
        ({"priority": 2**32}, "priority", "4294967295"),
        ({"catch_up_within": 30 * 86400 + 1}, "catch_up_within", "2592000"),
        ({"missed": "some"}, "missed", "not a valid choice"),
        ({"kind": "task", "target": "os.getcwd"}, "target", "no enqueue()"),
        ({"kind": "task", "target": "no.such.task"}, "target", "No module named"),
        ({"name": ""}, "name", "blank"),
    ],
)
def test_bad_input_is_refused_with_its_field(columns, field, words):
    with pytest.raises(ValidationError) as refused:
        scheduled(**columns)
    assert words in " ".join(refused.value.message_dict[field])
    assert not Schedule.objects.exists()
