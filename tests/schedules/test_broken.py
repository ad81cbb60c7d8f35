"""What is wrong with a schedule is refused, or written down where it comes too late for that; no
other schedule suffers from it."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import connection

from django_dbqueue.schedules import firing
from django_dbqueue.schedules.firing import run_due
from django_dbqueue.schedules.models import Schedule, Tick, as_utc
from django_dbqueue.schedules.planning import Missed
from tests.kit.bounds import limits
from tests.kit.schedules import START, again, notes_of, scheduled, ticks_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

HOUR = 3600


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


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("missed", Missed.values)
def test_a_tick_that_failed_once_is_tried_again_and_is_not_missed(clock, missed, is_saved):
    schedule = scheduled(timing="every 1 h", missed=missed)
    Schedule.objects.filter(pk=schedule.pk).update(target="shop.Gone")
    clock.move(HOUR)
    run_due()
    clock.move(1)
    if is_saved:
        row = again(schedule)
        row.target = "queueapp.Note"
        row.save()
    Schedule.objects.filter(pk=schedule.pk).update(target="queueapp.Note")
    clock.move(firing.RETRY_SECONDS)
    run_due()
    assert ticks_of(schedule) == [START + timedelta(hours=1)]
    assert notes_of(schedule) == [""]
    assert again(schedule).error == ""


@pytest.mark.parametrize(
    ("missed", "catch_up_within", "made", "left_out"),
    [
        ("skip", 86400, [1], (2, ", and all since")),
        ("skip", HOUR, [], (1, ", and all since")),
        ("latest", 86400, [1, 5], (2, ", and those up to 2031-01-15 17:00:00 UTC")),
    ],
)
def test_what_else_came_while_a_target_was_broken_is_missed_for_that(
    clock, missed, catch_up_within, made, left_out
):
    schedule = scheduled(timing="every 1 h", missed=missed, catch_up_within=catch_up_within)
    Schedule.objects.filter(pk=schedule.pk).update(target="shop.Gone")
    clock.move(HOUR)
    run_due()
    Schedule.objects.filter(pk=schedule.pk).update(target="queueapp.Note")
    clock.move(4 * HOUR + 600)
    run_due()
    hour, until = left_out
    assert ticks_of(schedule) == [START + timedelta(hours=n) for n in sorted([*made, hour])]
    assert Note.objects.count() == len(made)
    assert f"missed: it could not be enqueued{until}" in notes_of(schedule)


def test_a_default_is_what_the_table_says_and_is_not_judged(monkeypatch):
    for name, value in (("blank", False), ("default", "")):
        monkeypatch.setattr(Note._meta.get_field("text"), name, value)
    assert scheduled("default", arguments={}).pk
    with pytest.raises(ValidationError, match="text: This field cannot be blank"):
        scheduled("given", arguments={"text": ""})


@pytest.mark.parametrize("arguments", [{}, {"expires_at": "2031-02-01T00:00:00Z"}])
def test_a_table_may_have_a_max_age(clock, arguments):
    with limits(max_age=20):
        schedule = scheduled(timing="every 1 h", arguments=arguments)
        clock.move(HOUR)
        run_due()
    assert ticks_of(schedule) == [START + timedelta(hours=1)]
    ends = as_utc(Note.objects.get().expires_at)
    at = clock.now + timedelta(seconds=20)
    assert ends == (datetime(2031, 2, 1, tzinfo=UTC) if arguments else at)


def test_arguments_of_which_the_projects_code_makes_no_key_are_refused():
    def fail(_):
        raise KeyError("tenant")

    refused = pytest.raises(ValidationError, match="arguments: KeyError: 'tenant'")
    with limits("queueapp.shared", concurrency_key=fail), refused:
        scheduled(target="queueapp.Shared", arguments={"tenant": "a"})


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
        ({"starts_at": datetime(9999, 12, 31, 23, tzinfo=UTC)}, "starts_at", "1900 to 9900"),
        ({"starts_at": datetime(1, 1, 1, tzinfo=UTC)}, "starts_at", "1900 to 9900"),
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


def test_what_failed_here_and_was_moved_on_by_somebody_else_is_not_put_off(clock):
    broken, later = scheduled("a", "every 1 h"), START + timedelta(hours=2)
    Schedule.objects.update(kind="carrier pigeon")
    clock.move(HOUR)
    moved = []

    def move_first(execute, sql, *rest):
        if sql.startswith("UPDATE") and not moved:
            moved.append(later)
            Schedule.objects.update(next_tick=later, next_at=later)
        return execute(sql, *rest)

    with connection.execute_wrapper(move_first):
        run_due()
    assert moved
    assert (again(broken).error, as_utc(again(broken).next_at)) == ("", later)


@pytest.mark.parametrize(("is_careful", "transactions"), [(False, 1), (True, 3)])
def test_a_careful_look_has_a_transaction_for_each_schedule(clock, is_careful, transactions):
    for name in ("a", "b", "c"):
        scheduled(name, "every 1 h")
    clock.move(HOUR)
    written = []

    def note(execute, sql, *rest):
        if sql.startswith("INSERT") and Tick._meta.db_table in sql:
            written.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(note):
        run_due(is_careful=is_careful)
    assert (len(written), Note.objects.count()) == (transactions, 3)


def test_of_a_long_problem_there_is_as_much_as_its_column_holds(clock):
    broken = again(scheduled("a", "every 1 h"))
    firing.record(broken, ValidationError("x" * 600), "default")
    assert again(broken).error == "x" * 500
