"""What may be said of one queue by the setting QUEUES, and what the check says of nonsense."""

import pytest
from django.test import override_settings

from django_dbqueue.checks.tables import check_settings, check_table
from django_dbqueue.lifecycle.queue_options import policy_of_queue, says_anything
from tests.queueapp.models import Note, Ordered, Shared

NONSENSE = [
    ({"queueapp.not": {}}, "names no queue table"),
    ({"queueapp.note: a": {}}, "names no queue"),
    ({"queueapp.note": 7}, "must be a dict of options"),
    ({"queueapp.note": {"max_lenght": 7}}, "no option of a queue"),
    ({"queueapp.note": {"time_to_run": 7}}, "no option of a queue"),
    ({"queueapp.note": {"max_length": 0}}, "between 1 and 2147483647"),
    ({"queueapp.note": {"max_length": 2**31}}, "between 1 and 2147483647"),
    ({"queueapp.note": {"when_full": "drop"}}, "'reject', 'wait' or 'drop_oldest'"),
    ({"queueapp.note": {"full_wait": -1}}, "between 0 and"),
    ({"queueapp.note": {"rate": "0/s"}}, "it must allow at least 1 a second"),
    ({"queueapp.not": {}}, "(did you mean queueapp.note?)."),
    ({"queueapp.note": {"max_age": 0}}, "between 1 and"),
    ({7: {"max_length": 1}}, "names no queue table"),
]


def given(queues):
    return override_settings(DBQUEUE={"QUEUES": queues})


@pytest.mark.parametrize(("queues", "problem"), NONSENSE, ids=[problem for _, problem in NONSENSE])
def test_nonsense_is_named_and_counts_as_not_given(queues, problem):
    with given(queues):
        [error] = check_settings()
        assert error.id == "dbqueue.E018"
        assert problem in error.msg
        assert policy_of_queue(Note, "default").max_length is None


def test_a_queue_has_its_own_options_then_those_of_its_table():
    queues = {"queueapp.note": {"max_length": 10}, "QueueApp.Note:big": {"max_length": 20}}
    with given(queues):
        assert check_settings() == []
        assert policy_of_queue(Note, "default").max_length == 10
        assert policy_of_queue(Note, "big").max_length == 20
        assert says_anything(Note, "max_length")
    assert policy_of_queue(Note, "big").max_length is None
    assert not says_anything(Note, "max_length")


def test_a_queue_may_be_without_what_its_table_has():
    queues = {"queueapp.note": {"max_length": 10}, "queueapp.note:big": {"max_length": None}}
    with given(queues):
        assert policy_of_queue(Note, "big").max_length is None


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, "'block'"),
        ({"when_head_fails": "fail"}, "'fail'"),
        ({"when_head_fails": "skip"}, ""),
        ({"key_order": "free"}, ""),
        ({"when_full": "reject"}, ""),
        ({"max_length": None}, ""),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["queueapp.ordered", "queueapp.ordered:big"])
def test_dropping_of_jobs_that_come_in_order_is_a_warning_unless_the_others_go_on(
    name, options, rule
):
    with given({name: {"max_length": 10, "when_full": "drop_oldest", **options}}):
        found = check_table(Ordered)
        assert [message.id for message in found] == (["dbqueue.W017"] if rule else [])
        assert all(rule in message.msg and "archive" in message.hint for message in found)
        if found and ":" in name:
            assert "(queues: big)" in found[0].msg


def test_dropping_of_jobs_that_come_in_order_is_right_where_they_move_to_an_archive():
    options = {"max_length": 10, "when_full": "drop_oldest", "key_order": "fifo"}
    with given({"queueapp.shared": options}):
        assert check_table(Shared) == []


def test_queues_that_are_no_dict_are_named_by_one_check():
    with given(["queueapp.note"]):
        [error] = [*check_settings(), *check_table(Note)]
    assert error.id == "dbqueue.E015"
    assert error.msg == "DBQUEUE['QUEUES'] must be of type dict, not ['queueapp.note']."
