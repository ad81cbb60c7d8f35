"""A table with more queues than are shown: those that matter are, and the others are counted."""

import json
import re

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from django_dbqueue.admin.overview import summary
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.backlog import head_ages
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.management.looking import look_at
from django_dbqueue.metrics import numbers
from django_dbqueue.models import Queue
from django_dbqueue.models.queue import ALL
from django_dbqueue.monitor import overview
from django_dbqueue.monitor.alerts import alerts
from django_dbqueue.monitor.document import document
from django_dbqueue.monitor.glance import glance
from django_dbqueue.monitor.thresholds import Thresholds, watch
from django_dbqueue.monitor.verdict import Level
from django_dbqueue.states import Status
from django_dbqueue.worker.served import Served, parse_served
from tests.kit.bounds import limits
from tests.kit.command_line import status
from tests.kit.counting import count_all
from tests.kit.jobs import aged, buried, overwrite
from tests.kit.overview import NOTE, OVERVIEW, a_worker, look, minute, text_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def late():
    """The job that waits longest, of the queue whose name comes last."""
    Note.objects.bulk_create([Note(queue=f"q{n:03}") for n in range(150)])
    job = Note.objects.get(queue="q149")
    overwrite(job, created_at=job.created_at.replace(year=job.created_at.year - 1))
    return job


def shown():
    return {one.queue: one for one in look().queues}


def seen():
    return glance([Served(Note, "default")])


def test_what_waits_longest_is_shown_and_is_an_alarm(late):
    a_worker()
    assert len(shown()) == 100
    assert "q149" in shown()
    judged = seen().verdict
    assert judged.level is Level.ACT
    assert "queue q149: the oldest ready job waits" in judged.sentence


def test_what_is_late_by_its_own_measure_is_shown_however_long_others_wait(late):
    Note.objects.bulk_create([Note(queue=f"r{n:03}") for n in range(150)])
    aged(Note.objects.create(queue="urgent"), 30)
    for job in Note.objects.filter(queue__startswith="r"):
        aged(job, 60)
    a_worker()
    assert "urgent" not in shown()
    with limits(f"{NOTE}:urgent", late_after=10):
        assert "urgent" in shown()
        assert any("queue urgent: the oldest" in one.text for one in alerts(look()))


def test_what_waits_on_purpose_pushes_nothing_late_out_of_sight(late):
    a_worker()
    old = late.created_at.replace(year=late.created_at.year - 3)
    Queue.objects.all().delete()
    for number in range(120):
        Note.objects.pause(f"q{number:03}", 3600)
        minute(1, f"q{number:03}", completed=9, failed=9)
    QuerySet(Note).filter(queue__lt="q120").update(created_at=old)
    assert "q149" in shown()
    assert "queue q149: the oldest ready job waits" in seen().verdict.sentence


def test_a_paused_queue_is_watched_too(late):
    Note.objects.pause("q149", 3600)
    [over] = watch([Served(Note, "default")], Thresholds(waiting=1000, age=3600)).over
    assert (over.queue, over.paused) == ("q149", True)


def test_a_queue_that_is_watched_by_name_is_among_them_however_many_are_late(late):
    for number in range(60):
        a_worker(serves=[f"{NOTE}:named{number:03}"])
    QuerySet(Note).update(created_at=late.created_at.replace(year=late.created_at.year - 2))
    Note.objects.bulk_create([Note(queue="zz") for _ in range(20)])
    [over] = watch([Served(Note, "default", "zz")], Thresholds(waiting=10, age=None)).over
    assert over.queue == "zz"


def test_what_is_late_is_shown_before_those_that_are_asked_for(late):
    a_worker(serves=[f"{NOTE}:named{n:03}" for n in range(120)])
    a_worker()
    assert "q149" in shown()
    assert "named000" in shown()
    assert seen().verdict.level is Level.ACT


def test_where_most_failed_where_most_was_done_and_where_most_waits_is_shown(late):
    minute(3, "q140", failed=900)
    minute(3, "q141", completed=900)
    Note.objects.enqueue_many([{}] * 20, queue="q142")
    buried(queue="q143")
    assert {"q140", "q141", "q142", "q143"} <= shown().keys()


def test_the_verdict_and_the_sums_count_all_queues(late):
    a_worker()
    Note.objects.filter(queue="q149").cancel()
    minute(3, "gone", completed=7, failed=2)
    for number in range(120):
        minute(4, f"q{number:03}", completed=1)
    found = seen()
    assert found.verdict.sentence == (
        "All is well: 1 worker at work, 149 jobs to do, 127 done in the last hour."
    )
    assert found.last_hour.total("done") == 127
    told = {name: text for name, _, text, _ in summary(found.found)}
    assert (told["waiting"], told["rate"]) == ("149", "25")
    [others] = found.found.others
    assert others.number.text == str(151 - 100)
    whole = sum(one.counts[Status.READY] for one in found.found.queues)
    assert whole + others.counts[Status.READY].number == 149


def test_due_jobs_of_the_others_are_jobs_to_do_as_well(late):
    Note.objects.bulk_create(Note(queue=f"r{n:03}") for n in range(150))
    of_these = QuerySet(Note).filter(queue__startswith="r")
    of_these.update(status=Status.DELAYED, retry_at=late.created_at)
    found = look()
    [others] = found.others
    assert others.due > 0
    assert sum(one.due for one in found.queues) + others.due == 150
    assert document(seen(), sees_workers=True)["other_queues"][0]["due"] == others.due


def test_the_page_and_the_terminal_have_a_line_of_the_others(late, browser):
    text = text_of(browser.get(OVERVIEW))
    assert "It has more than 100 queues." in text
    assert "51 others" in text
    assert re.search(r"queueapp.note +51 others +50 +0 +0 +0 +0 ", status(NOTE))
    assert "others" not in status(f"{NOTE}:q149")


def test_machines_are_told_what_the_others_come_to(late):
    [others] = document(seen(), sees_workers=True)["other_queues"]
    counts = {"ready": 50, "claimed": 0, "delayed": 0, "buried": 0}
    assert (others["table"], others["queues"], others["counts"]) == (NOTE, 51, counts)
    assert json.loads(json.dumps(others)) == others


def test_a_queue_that_is_asked_for_is_shown_however_many_there_are(late):
    """Also one in which nothing is."""
    assert not {"asked", "served"} & shown().keys()
    asked = glance([Served(Note, "default", queue="asked")]).found
    assert "asked" in {one.queue for one in asked.queues}
    a_worker(serves=[f"{NOTE}:served"])
    assert "served" in shown()


def test_all_queues_that_are_named_are_shown_however_many_there_are(late):
    named = [f"{NOTE}:one", f"{NOTE}:two"]
    for words in (named, [NOTE, *named]):
        found, _ = look_at(parse_served(words))
        assert {"one", "two"} <= {one.queue for one in found.queues}


def test_a_pause_of_the_whole_table_is_one_of_all_its_queues(late):
    a_worker()
    Queue.objects.pause(Note._meta.db_table, ALL, 60, "tea")
    found = seen().verdict
    assert found.paused == "Paused on purpose: 151 queues, 150 ready jobs in them."
    assert "nothing waits" in found.sentence


def test_of_others_that_nobody_has_counted_there_are_at_least_so_many(late, monkeypatch):
    monkeypatch.setattr(numbers, "FEW", 10)
    [others] = look().others
    assert others.counts[Status.READY].is_at_least
    count_all(Note)
    [others] = look().others
    assert (others.counts[Status.READY].number, others.number.number) == (50, 51)
    assert not others.counts[Status.READY].is_at_least


def test_the_ages_of_a_thousand_queues_cost_ten_statements(late):
    names = [f"q{n:03}" for n in range(1_000)]
    with CaptureQueriesContext(connection) as captured:
        ages = head_ages(table_of(Note, "default"), names)
    assert len(captured) == 10
    assert len(ages) == 150
    assert max(ages, key=ages.__getitem__) == "q149"


def test_after_the_clock_was_set_back_no_other_queue_waits_for_less_than_nothing(late):
    Note.objects.update(created_at=DbNow(plus=3600))
    found = document(seen(), sees_workers=True)
    ages = {one["oldest_seconds"] for one in [*found["queues"], *found["other_queues"]]}
    assert ages <= {0, None}


def test_due_jobs_beyond_the_bound_are_told_as_at_least(late, monkeypatch):
    Note.objects.all().delete()
    a_worker()
    Note.objects.enqueue_many([{}] * 12, delay=3600)
    for job in Note.objects.all():
        overwrite(job, retry_at=late.created_at)
    monkeypatch.setattr(overview, "DUE_MAX", 12)
    assert "12 jobs to do" in seen().verdict.sentence
    monkeypatch.setattr(overview, "DUE_MAX", 10)
    found = seen()
    [one] = found.found.queues
    assert (one.due, one.due_at_least, one.drain_seconds) == (11, True, None)
    assert "11+ jobs to do" in found.verdict.sentence
