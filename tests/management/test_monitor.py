"""``dbqueue monitor``: which queues are over a limit, and the exit code that says so."""

import json
from typing import Any

import pytest
from django.db.models import QuerySet

from django_dbqueue.fields import DbNow
from django_dbqueue.monitor import thresholds
from django_dbqueue.testing import virtual_clock
from tests.kit.bounds import limits
from tests.kit.broken_rows import edit
from tests.kit.command_line import as_json, dbqueue, fails
from tests.kit.jobs import aged, claimed
from tests.kit.overview import Away, a_worker
from tests.kit.processes import running
from tests.queueapp.models import Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def many(number: int, queue: str = "default", **more: Any) -> None:
    Note.objects.enqueue_many([{} for _ in range(number)], queue=queue, **more)


def of(queue: str, found: Any, table: str = "queueapp.note") -> Any:
    [one] = [q for q in found["queues"] if (q["table"], q["queue"]) == (table, queue)]
    return one


def test_where_all_is_well_it_ends_with_0_and_lists_the_queues():
    many(3, "slow")
    Note.objects.enqueue(queue="slow", delay=3600)
    claimed(queue="busy")
    Note.objects.pause("busy")
    a_worker()
    found = as_json("monitor", "queueapp.Note")
    assert not found["alert"]
    slow, busy = of("slow", found), of("busy", found)
    assert (slow["waiting"], slow["delayed"], slow["claimed"], slow["paused"]) == (3, 1, 0, False)
    assert (busy["waiting"], busy["delayed"], busy["claimed"], busy["paused"]) == (0, 0, 1, True)
    assert slow["workers"] == 1
    assert slow["why"] == []


@pytest.mark.parametrize(("limit", "code"), [(4, 1), (5, 0)])
def test_a_queue_with_so_many_waiting_jobs_is_an_alert(limit, code):
    many(4, "slow")
    many(3, "other")
    if not code:
        assert not as_json("monitor", "--max", limit)["alert"]
        return
    printed, why = fails(1, "monitor", "--max", limit, "--json")
    assert why == "queueapp.note:slow: 4 or more jobs wait"
    found = json.loads(printed)
    assert found["alert"]
    assert [one["queue"] for one in found["queues"] if one["why"]] == ["slow"]


def test_by_default_a_thousand_are_too_many():
    many(999, "a")
    many(1000, "b")
    _, why = fails(1, "monitor")
    assert why == "queueapp.note:b: 1,000 or more jobs wait"


def test_a_limit_beyond_what_a_list_counts_is_counted_to():
    many(1500, "a")
    assert of("a", as_json("monitor", "--max=1501"))["waiting"] == 1500
    _, why = fails(1, "monitor", "--max=1500")
    assert "1,500 or more jobs wait" in why


@pytest.mark.each_database
def test_delayed_jobs_wait_once_they_are_due_though_no_worker_lives_to_promote_them():
    many(5, "later", delay=3600)
    assert of("later", as_json("monitor", "--max=5"))["waiting"] == 0
    for job in Note.objects.all():
        aged(job, 700, "retry_at")
    printed, why = fails(1, "monitor", "--max=5", "--json")
    later = of("later", json.loads(printed))
    assert later["waiting"] == 5
    assert 700 <= later["oldest_seconds"] < 1300
    assert "5 or more jobs wait" in why
    assert "the oldest waits for 1" in why


@pytest.mark.each_database
def test_a_job_that_waits_for_too_long_is_an_alert():
    aged(Note.objects.create(queue="old"), 3000)
    aged(Note.objects.create(queue="new"), 10)
    _, why = fails(1, "monitor", "--max-age=45m")
    assert why == "queueapp.note:old: the oldest waits for 50 min"
    assert not as_json("monitor", "--max-age=2h")["alert"]
    assert "queueapp.note:old" in fails(1, "monitor")[1]  # by LATE_AFTER


def test_a_queue_may_say_itself_what_is_too_long():
    aged(Note.objects.create(queue="slow"), 3000)
    aged(Note.objects.create(queue="quick"), 100)
    for age, late in ((7200, False), (60, True)):
        with limits("queueapp.note:slow", late_after=age):
            found = json.loads(fails(1, "monitor", "--json")[0]) if late else as_json("monitor")
            slow = of("slow", found)
            assert (slow["late_after_seconds"], bool(slow["why"])) == (age, late)
            assert of("quick", found)["late_after_seconds"] == 300
        assert of("slow", as_json("monitor", "--max-age=1h"))["late_after_seconds"] == 3600


@pytest.mark.each_database
def test_after_the_clock_was_set_back_no_job_waits_for_less_than_nothing():
    with virtual_clock() as clock:
        many(1, "a")
        Note.objects.update(created_at=DbNow())
        clock.move(-3600)
        assert of("a", as_json("monitor", "queueapp.Note"))["oldest_seconds"] == 0
        lines = [line.split() for line in dbqueue("monitor", "queueapp.Note").splitlines()]
        assert ["queueapp.note", "a", "1", "0", "s"] in [line[:5] for line in lines]


def test_only_what_is_named_is_watched():
    many(4, "a")
    many(4, "b")
    for _ in range(4):
        Kept.objects.create()
    assert "queueapp.note:a: " in fails(1, "monitor", "queueapp.Note:a", "--max=4")[1]
    names = [line.partition(": ")[0] for line in fails(1, "monitor", "--max=4")[1].splitlines()]
    assert sorted(names) == ["queueapp.kept:default", "queueapp.note:a", "queueapp.note:b"]


def test_what_is_named_twice_is_told_once():
    Note.objects.create()
    names = "queueapp.note:default", "queueapp.note", "queueapp.note:default"
    report = json.loads(fails(1, "monitor", *names, "--max=1", "--json")[0])
    assert [one["queue"] for one in report["queues"]] == ["default"]


@pytest.mark.parametrize("looked_at", [1, 20_000])
def test_a_queue_that_is_named_with_its_whole_table_is_over_as_in_that(monkeypatch, looked_at):
    """Of due jobs some are looked at, more where more queues are meant."""
    monkeypatch.setattr(thresholds, "DUE_MAX", looked_at)
    for queue, ago in (("early", 60), ("default", 30)):
        many(2, queue, delay=3600)
        QuerySet(Note).filter(queue=queue).update(retry_at=DbNow(plus=-ago))
    for names in (["queueapp.note"], ["queueapp.note:default", "queueapp.note"]):
        _, why = fails(1, "monitor", *names, "--max=2")
        assert "queueapp.note:default: 2 or more jobs wait" in why


@pytest.mark.each_database
def test_due_jobs_of_other_queues_do_not_hide_those_of_the_one_that_is_watched():
    for queue, ago in (("other", 900), ("watched", 700)):
        many(4, queue, delay=3600)
        QuerySet(Note).filter(queue=queue).update(retry_at=DbNow(plus=-ago))
    printed, why = fails(1, "monitor", "queueapp.Note:watched", "--max=4", "--json")
    assert "queueapp.note:watched: 4 or more jobs wait" in why
    assert of("watched", json.loads(printed))["oldest_seconds"] >= 700


def test_people_see_which_queue_and_why():
    for job in (Note.objects.create(), Note.objects.create()):
        edit(job, "queue = 'slow\u202e'")
    printed, _ = fails(1, "monitor", "queueapp.Note", "--max=2")
    head, *lines = printed.splitlines()
    assert head.split()[:4] == ["queue", "table", "queue", "waiting"]
    [line] = [line for line in lines if "slow" in line]
    assert line.startswith("queueapp.note  slow\\u202e  2 ")
    assert line.endswith("2 or more jobs wait")


def test_a_database_that_cannot_be_asked_is_an_alert(settings):
    many(1)
    away = Away(Kept)
    try:
        settings.DATABASE_ROUTERS = [away]
        printed, why = fails(1, "monitor", "--json")
    finally:
        settings.DATABASE_ROUTERS = []
        away.end()
    assert why.startswith("database 'away' cannot be asked: ")
    assert of("default", json.loads(printed))["waiting"] == 1


def test_without_any_job_it_ends_with_0():
    assert "default" in dbqueue("monitor", "queueapp.Note")


@pytest.mark.process
def test_on_the_command_line_an_operator_reads_the_alerts_alone(database_url):
    many(2, "slow")
    with running(database_url, "dbqueue", "monitor", "--max", "2") as process:
        assert process.end() == 1
        assert process.stderr == "queueapp.note:slow: 2 or more jobs wait\n"


@pytest.mark.process
def test_what_is_refused_on_the_command_line_is_said_alone(database_url):
    with running(database_url, "dbqueue", "cancel") as process:
        assert process.end() == 2
        assert process.stderr.startswith("cancel which jobs?")
