"""``manage.py dbqueue schedule``."""

import json

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue.schedules.models import Schedule, Tick, as_utc
from django_dbqueue.testing import virtual_clock
from tests.kit.schedules import START, again, scheduled
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def call(capsys):
    def call(*words):
        call_command("dbqueue", "schedule", *words)
        return capsys.readouterr().out

    with virtual_clock(START):
        yield call


def test_a_schedule_is_added_and_listed(call):
    assert call("list") == "no schedules\n"
    columns = json.dumps({"text": "hello"})
    said = call(
        *("add", "nightly", "0 3 * * *", "queueapp.Note", "--arguments", columns),
        *("--time-zone", "Europe/Berlin", "--queue", "slow", "--missed", "all"),
    )
    assert said == "nightly: 0 3 * * *, next at 2031-01-16T02:00:00+00:00\n"
    schedule = Schedule.objects.get()
    assert (schedule.arguments, schedule.queue, schedule.missed) == (
        {"text": "hello"},
        "slow",
        "all",
    )
    head, line = call("list").splitlines()
    assert head.split()[:2] == ["schedule", "timing"]
    assert line.split("  ")[0] == "nightly"
    assert "Europe/Berlin" in line
    [row] = json.loads(call("list", "--json"))
    assert row["next_tick"] == "2031-01-16T02:00:00+00:00"
    assert (row["name"], row["kind"], row["is_paused"]) == ("nightly", "table", False)


def test_an_interval_begins_where_it_is_told_to(call):
    call("add", "x", "every 2 h", "queueapp.Note", "--starts-at", "2031-01-16T00:30:00+01:00")
    assert as_utc(Schedule.objects.get().next_tick) == START.replace(hour=23, minute=30)


@pytest.mark.parametrize("start", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_start_of_a_year_that_no_clock_shows_is_refused(call, start):
    with pytest.raises(CommandError, match="years 1900 to 9900"):
        call("add", "x", "every 2 h", "queueapp.Note", "--starts-at", start)


def test_a_start_that_is_no_time_is_refused_in_words(call):
    with pytest.raises(CommandError, match="'soon' is no time such as 2026-11-26T03:00"):
        call("add", "x", "every 2 h", "queueapp.Note", "--starts-at", "soon")


def test_a_schedule_is_paused_resumed_run_and_deleted(call):
    schedule = scheduled("nightly", "0 3 * * *")
    assert call("pause", "nightly") == "nightly is paused\n"
    assert again(schedule).is_paused
    assert "paused" in call("list")
    assert call("resume", "nightly") == "nightly: next at 2031-01-16T03:00:00+00:00\n"
    said = call("run", "nightly")
    note = Note.objects.get()
    assert said == f"nightly: enqueued queueapp.Note {note.pk}\n"
    assert Tick.objects.get().note == "asked for by manage.py dbqueue schedule run"
    assert call("delete", "nightly") == "nightly is deleted\n"
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pause", "nothing"), "'nothing' is no schedule"),
        (("add", "x", "often", "queueapp.Note"), "timing must be"),
        (("add", "x", "0 3 * * *", "shop.Gone"), "target: "),
        (
            ("add", "x", "0 3 * * *", "queueapp.Note", "--arguments", "{"),
            "--arguments must be JSON",
        ),
        (("add", "x", "0 3 * * *", "queueapp.Note", "--priority", "-1"), "priority must be"),
        (("add", "taken", "0 3 * * *", "queueapp.Note"), "already exists"),
        (("delete", "declared"), "declared in code"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_done(call, words, said):
    scheduled("taken")
    Schedule.objects.filter(pk=scheduled("declared").pk).update(is_declared=True)
    with pytest.raises(CommandError, match=said):
        call(*words)
    assert Schedule.objects.count() == 2
