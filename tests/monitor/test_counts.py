"""How many jobs there are, as people and machines are told: exactly where they are few; else as
they were counted, and how long ago that was."""

import json
import re

import pytest

from django_dbqueue.fields import DbNow
from django_dbqueue.metrics import numbers
from django_dbqueue.metrics.numbers import Count, Numbers, sum_of
from django_dbqueue.models import Queue, TableCount
from django_dbqueue.monitor.thresholds import Thresholds, watch
from django_dbqueue.operate import keyset
from django_dbqueue.states import Status
from django_dbqueue.worker.served import Served
from tests.kit.command_line import as_json, dbqueue, status
from tests.kit.counting import count_all
from tests.kit.jobs import table
from tests.kit.overview import NOTE, OVERVIEW, look, queues, text_of
from tests.metrics.test_counting import as_left_in
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]

NOTES = "/admin/queueapp/note/"


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """More than ten are many."""
    for module, name in (
        (numbers, "FEW"),
        (keyset, "COUNTED_ROWS_MAX"),
        (keyset, "WINDOW_ROWS"),
        (keyset, "TAB_WINDOW_ROWS"),
    ):
        monkeypatch.setattr(module, name, 10)


def many(status, **by_queue):
    for queue, number in by_queue.items():
        rows = [Note(queue=queue, **as_left_in(status)) for _ in range(number)]
        Note._base_manager.bulk_create(rows)


def counted(seconds_ago=20, *models):
    count_all(*models or (Note,))
    TableCount.objects.update(counted_at=DbNow(plus=-seconds_ago))


@pytest.mark.parametrize("state", [Status.READY, Status.CLAIMED, Status.DELAYED, Status.BURIED])
def test_each_queue_has_its_own_number_however_many_there_are_together(state):
    many(state, large=67, small=3)
    counted()
    found = {name: one.count(state) for name, one in queues().items() if name != "default"}
    assert [found["large"].number, found["small"].number] == [67, 3]
    assert 20 <= found["large"].seconds_ago < 120
    assert not found["large"].is_at_least
    # Of ready ones each queue is counted, where that is few.
    assert found["small"].is_exact == (state == Status.READY)


def test_a_queue_is_seen_that_the_first_jobs_say_nothing_of():
    many(Status.BURIED, large=30)
    many(Status.BURIED, small=1)
    assert "small" not in queues()
    counted()
    assert queues()["small"].count(Status.BURIED).number == 1


def test_few_jobs_are_counted_now_whatever_was_counted_before():
    many(Status.BURIED, a=30)
    counted()
    Note.objects.buried().kick()
    Note.objects.filter(queue="a").cancel()
    many(Status.BURIED, a=4)
    assert queues()["a"].count(Status.BURIED) == Count(4)
    assert queues()["a"].count(Status.READY) == Count(0)


def test_where_more_came_since_than_were_counted_it_says_that_there_are_more():
    many(Status.READY, a=3)
    counted()
    many(Status.READY, a=30)
    assert queues()["a"].count(Status.READY) == Count(10, is_at_least=True)


def test_where_nobody_has_counted_it_says_that_there_are_more():
    many(Status.READY, a=12)
    assert queues()["a"].count(Status.READY) == Count(10, is_at_least=True)
    assert "10+" in status()


def test_the_terminal_says_how_old_a_number_is_and_so_does_its_json():
    many(Status.DELAYED, large=67)
    many(Status.READY, large=2)
    counted(seconds_ago=90)
    assert re.search(r"67, [23] min ago", status())
    [one] = [q for q in json.loads(status("--json"))["queues"] if q["queue"] == "large"]
    assert one["counts"] == {"ready": 2, "claimed": 0, "delayed": 67, "buried": 0}
    assert one["at_least"] == []
    assert list(one["counted_seconds_ago"]) == ["delayed"]
    assert 90 <= one["counted_seconds_ago"]["delayed"] < 300


def test_the_page_and_its_sums_say_how_old_a_number_is(browser):
    many(Status.BURIED, large=40, small=3)
    Queue.objects.pause(Note._meta.db_table, "large", None, "tea")
    many(Status.READY, large=30)
    counted(seconds_ago=7_200)
    text = text_of(browser.get(OVERVIEW))
    assert re.search(r'>3</a>\s*<span class="dbqueue-\w+">2 h( \d min)? ago<', text)
    assert re.search(r'<dd>43<span class="dbqueue-\w+">2 h( \d min)? ago<', text)
    assert re.search(r"Ready jobs that wait: 30, 2 h( \d min)? ago\.", text)


def test_lists_have_the_numbers_of_their_states(browser):
    many(Status.DONE, large=40, small=2)
    many(Status.BURIED, large=21)
    assert '<span class="dbqueue-count">10+</span>' in text_of(browser.get(NOTES))
    counted()
    page = text_of(browser.get(NOTES))
    assert tabs(page) == {"all": "63", "ready": "0", "buried": "21", "done": "42"}
    assert tabs(text_of(browser.get(f"{NOTES}?queue=small")))["done"] == "2"
    page = text_of(browser.get(f"{NOTES}?state=2"))
    # A list looks further than its tabs do, and may have seen all of them.
    assert re.search(r'aria-label="Pages">\s*<p>42 notes(, \d+ s ago)?</p>', page)
    assert "42 results" in page
    filtered = tabs(text_of(browser.get(f"{NOTES}?attempts=0&state=2")))
    assert filtered["buried"].endswith("+")


def tabs(page):
    found = re.findall(r'>(\w+) <span class="dbqueue-count">([^<]+)</span>', page)
    wanted = {name: text.partition(", ")[0] for name, text in found}
    return {name: text for name, text in wanted.items() if name not in {"claimed", "delayed"}}


def test_what_is_done_does_not_become_less_while_more_is_done(browser):
    many(Status.DONE, large=40)
    counted()
    many(Status.DONE, large=5)
    many(Status.READY, large=300)  # the newest rows
    assert tabs(text_of(browser.get(NOTES)))["done"] == "40"


def test_an_alarm_is_about_what_waits_now():
    many(Status.READY, a=30)
    counted()
    Note.objects.filter(queue="a").cancel()
    many(Status.READY, a=12)
    watched = watch([Served(Note, "default")], Thresholds(20, 60)).queues
    [one] = [one for one in watched if one.queue == "a"]
    assert (one.waiting, one.why) == (12, [])


def test_a_monitoring_system_is_told_what_is_not_exact():
    many(Status.DELAYED, a=30)
    many(Status.CLAIMED, a=2)
    [one] = as_json("monitor", "queueapp.note:a")["queues"]
    assert (one["claimed"], one["at_least"]) == (2, ["delayed"])
    counted()
    [one] = as_json("monitor", "queueapp.note:a", "--max=99")["queues"]
    assert (one["delayed"], one["at_least"]) == (30, [])
    assert list(one["counted_seconds_ago"]) == ["delayed"]
    assert re.search(r"\b30, \d+ s ago\b", dbqueue("monitor", "queueapp.note:a", "--max=99"))


def test_a_sum_is_as_old_as_the_oldest_of_its_parts():
    parts = [Count(5), Count(6_000, seconds_ago=20.2), Count(700, seconds_ago=3)]
    assert str(sum_of(parts)) == "6,705, 20 s ago"
    assert str(sum_of([*parts, Count(1, is_at_least=True)])) == "6,706+, 20 s ago"
    assert str(Count(5_000, is_at_least=True)) == "5,000+"


def test_all_queues_together_are_summed_up_beyond_those_that_are_told_apart(monkeypatch):
    monkeypatch.setattr("django_dbqueue.metrics.counting.QUEUES_MAX", 2)
    many(Status.BURIED, a=20, b=10, c=5, d=1)
    counted()
    found = Numbers(table())
    assert found.total(Status.BURIED).number == 36
    assert found.of(Status.BURIED, "a").number == 20
    assert found.of(Status.BURIED, "d").is_at_least
    assert found.rest(Status.BURIED, set()).number == 36
    assert NOTE in {one.table for one in look().queues}
