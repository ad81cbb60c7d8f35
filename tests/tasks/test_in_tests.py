"""Tasks in the tests of those who use them."""

import pytest

from django_dbqueue.tasks import compat
from tests.tasks import calls


@pytest.mark.django_db
def test_a_task_is_asked_for_by_its_arguments(dbqueue):
    calls.add.using(priority=5).enqueue(1, b=2)
    dbqueue.assert_enqueued(calls.add, args=[1], kwargs={"b": 2}, priority=5)
    dbqueue.assert_not_enqueued(calls.add, args=[2])
    dbqueue.assert_not_enqueued(calls.noop)
    with pytest.raises(AssertionError, match=r"tests\.tasks\.calls\.add"):
        dbqueue.assert_enqueued(calls.add, args=[7])


@pytest.mark.django_db
def test_a_task_is_asked_for_by_its_queue_also_where_it_has_a_rate_of_its_own(dbqueue, settings):
    options = {"rate": "10/s", "rate_key": "{task_path}"}
    settings.DBQUEUE = {"QUEUES": {"dbqueue_tasks.task": options}}
    calls.add.enqueue(1)
    dbqueue.assert_enqueued(calls.add, queue_name="default")


@pytest.mark.django_db
def test_tasks_run_inside_the_tests_transaction(dbqueue):
    added, failed = calls.add.enqueue(1), calls.fail_thrice.enqueue()
    paid = calls.pay.enqueue(3)
    dbqueue.run_all()
    added.refresh()
    assert added.return_value == 1
    dbqueue.run_until_settled()
    failed.refresh()
    paid.refresh()
    assert (failed.status, failed.attempts) == (compat.TaskResultStatus.FAILED, 3)
    assert paid.return_value == 3
