"""Tasks in the tests of those who use them."""

from datetime import UTC, datetime, timedelta

import pytest

from django_dbqueue.lifecycle import process_clock
from django_dbqueue.tasks import compat
from django_dbqueue.tasks.models import Task
from django_dbqueue.testing import virtual_clock
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


@pytest.mark.django_db
def test_a_task_that_enqueues_itself_again_runs_by_the_clock_of_the_test(dbqueue):
    calls.poll.enqueue(20)
    assert dbqueue.run_for(3630) == 7


@pytest.mark.django_db
@pytest.mark.parametrize("year", [2020, 2040])
def test_a_delay_counts_from_the_present_of_the_test(dbqueue, year):
    with virtual_clock(datetime(year, 1, 1, tzinfo=UTC)):
        result = calls.noop.using(run_after=timedelta(hours=1)).enqueue()
        assert dbqueue.run_all() == 0
        assert dbqueue.run_for(3600) == 1
        result.refresh()
        assert result.enqueued_at.year == year


@pytest.mark.django_db
def test_a_task_without_code_waits_longer_by_the_clock_of_the_test(dbqueue):
    calls.noop.enqueue()
    Task.objects.update(task_path="tests.tasks.calls.gone")
    assert dbqueue.run_for(3600) < 25


@pytest.mark.parametrize("use_tz", [True, False])
def test_the_present_of_a_test_has_a_zone_where_the_project_has_zones(settings, use_tz):
    settings.USE_TZ = use_tz
    with virtual_clock(datetime(2040, 1, 1, tzinfo=UTC)):
        now = process_clock.now()
    assert (now.tzinfo is UTC, now.timestamp()) == (use_tz, 2208988800)
