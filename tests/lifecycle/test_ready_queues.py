"""The queues that have ready jobs: all of them are found, some at a time, each by its first job."""

import pytest
from django.db import connections
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from django_dbqueue.dialects import dialect_of
from django_dbqueue.lifecycle.ready_queues import heads, lane_heads, ready_queues
from tests.kit.jobs import table
from tests.queueapp.chores import Chore
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

NAMES = ["a", "ab", "B", "z", "é"]


@pytest.fixture
def jobs():
    Note.objects.enqueue_many([{"queue": name, "priority": 5} for name in NAMES])
    Note.objects.enqueue_many([{"queue": "ab", "priority": 3}])
    Note.objects.enqueue_many([{"queue": "later"}], delay=60)
    QuerySet(Note).filter(queue="z").update(status=2)


def test_every_queue_with_a_ready_job_is_found_with_its_most_urgent_one(jobs):
    found = heads(table())
    assert sorted(head.queue for head in found) == ["B", "a", "ab", "é"]
    [urgent] = Note.objects.filter(priority=3)
    assert ("ab", 3, urgent.pk) in found


def test_some_at_a_time_go_round_and_leave_none_out(jobs):
    first = ready_queues(table(), most=3)
    rest = ready_queues(table(), most=3, after=first[-1])
    assert sorted({*first, *rest}) == ["B", "a", "ab", "é"]
    assert rest[1:] == first[:2]
    assert len(ready_queues(table(), after=first[1])) == 4


def test_a_column_of_the_table_s_own_may_have_any_name():
    Chore.objects.enqueue_many([{"name": name, "queue": name} for name in ("a", "b")])
    Chore.objects.enqueue_many([{"name": "z", "queue": "c"}])
    assert ready_queues(table(Chore)) == ["a", "b", "c"]
    assert len(Chore.objects.claim(5, queue=None)) == 3


def test_no_queue_is_found_in_an_empty_table():
    assert heads(table()) == []
    assert heads(table(), after="a") == []


def test_a_queue_that_a_hand_has_given_no_name_is_found_too(jobs):
    with connections["default"].cursor() as cursor:
        cursor.execute(f"UPDATE {table().name} SET queue = %s WHERE queue = %s", ["", "a"])
    assert sorted(ready_queues(table())) == ["", "B", "ab", "é"]


def test_many_queues_cost_one_statement_where_the_database_can(jobs):
    with CaptureQueriesContext(connections["default"]) as statements:
        heads(table())
    one_by_one = dialect_of(connections["default"]).heads("t", "id", "", "", 1) is None
    assert len(statements) == (5 if one_by_one else 1)


def test_a_queue_whose_name_follows_those_of_the_lanes_is_none_of_them():
    Note.objects.enqueue_many([{"queue": name} for name in ("mail@smtp", "mailA", "mail")])
    assert [head.queue for head in lane_heads(table(), "mail")] == ["mail@smtp"]
