"""What is known of a task between its claim and its end."""

from datetime import timedelta

import pytest
from django.utils import timezone

from django_dbqueue.lifecycle import reap
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.models import Worker
from django_dbqueue.models.worker import SHOWN_MAX
from django_dbqueue.tasks import compat
from django_dbqueue.tasks.models import Task
from tests.kit.jobs import overwrite
from tests.kit.processes import lines, wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.tasks import calls
from tests.tasks.test_backend import work_off

pytestmark = pytest.mark.usefixtures("db_rows")
Status_ = compat.TaskResultStatus
CHILD = "f" * 32 + ".1-"


def claimed(count, owner=CHILD + "1"):
    """Results of tasks that a child has claimed, in their order."""
    given = [calls.noop.enqueue() for _ in range(count)]
    Task.objects.claim(limit=count, owner=owner)
    return given


def living_worker(**running):
    return Worker.objects.create(uuid="f" * 32, host="h", pid=1, running=running)


def statuses(given):
    for one in given:
        one.refresh()
    return [one.status for one in given]


def test_a_task_runs_while_those_that_were_fetched_ahead_are_ready():
    ahead = [calls.noop.using(priority=-1).enqueue().id for _ in range(2)]
    given = calls.look_at.enqueue(ahead)
    work_off()
    given.refresh()
    assert given.return_value == [["RUNNING", 1, False], ["READY", 0, True], ["READY", 0, True]]


def test_of_a_childs_claims_the_first_one_left_has_begun():
    living_worker()
    first, second = claimed(2), claimed(2, CHILD + "2")
    other = claimed(1, "f" * 32 + ".2-1")
    assert statuses(first + second + other) == [
        Status_.RUNNING,
        *[Status_.READY] * 3,
        Status_.RUNNING,
    ]


def test_what_the_row_of_its_worker_names_has_begun():
    given = claimed(3)
    last = Task.objects.order_by("pk").last()
    living_worker(**{"7": [{"job": f"dbqueue_tasks.task {last.pk}", "seconds": 1.5}]})
    assert statuses(given) == [Status_.RUNNING, Status_.READY, Status_.RUNNING]


def test_where_nobody_can_tell_it_has_begun():
    given = claimed(2)
    assert statuses(given) == [Status_.RUNNING] * 2  # by a loop of the project's own
    living_worker(**{"7": [{"job": f"a.b {n}", "seconds": 1} for n in range(SHOWN_MAX)]})
    assert statuses(given) == [Status_.RUNNING] * 2


def test_a_task_that_is_fetched_ahead_again_knows_of_its_run_before():
    given = calls.fail_thrice.enqueue()
    work_off()
    calls.noop.using(priority=1).enqueue()
    Task.objects.kick()
    overwrite(Task.objects.order_by("pk").first(), attempts=1)
    given.refresh()
    before = given.started_at
    living_worker()
    Task.objects.claim(limit=2, owner=CHILD + "1")
    given.refresh()
    assert (given.status, given.attempts, given.started_at) == (Status_.READY, 1, before)


def test_threads_are_seen_at_the_next_beat(database_url, log):
    given = [calls.sleep.enqueue(log, 60) for _ in range(3)]
    with worker(database_url, "dbqueue_tasks.task", "--threads", "2", "--batch-size", "3"):
        wait_for_lines(log, 2)
        running = [Status_.RUNNING, Status_.RUNNING, Status_.READY]
        wait_until(lambda: statuses(given) == running or "ended" in lines(log), seconds=60)
        assert "ended" not in lines(log)


def test_the_start_does_not_move_when_an_attempt_fails():
    given = calls.fail_with_its_start.enqueue()
    work_off()
    given.refresh()
    starts = [one.traceback.rpartition("ValueError: ")[2].strip() for one in given.errors]
    assert starts == [given.started_at.isoformat()] * 2
    assert given.started_at <= given.last_attempted_at <= given.finished_at


def test_nor_when_it_is_ended_from_outside():
    [given] = claimed(1)
    given.refresh()
    before = given.started_at
    [row] = Task.objects.all()
    overwrite(row, retry_at=timezone.now() - timedelta(seconds=60))
    table = table_of(Task, "default")
    reap.end_overdue(table, reap.find_overdue(table))
    given.refresh()
    assert (given.status, given.started_at) == (Status_.FAILED, before)


def test_it_has_not_started_before_it_was_enqueued():
    given = calls.noop.enqueue()
    work_off()
    late = timezone.now() + timedelta(seconds=5)
    Task.objects.filter(result_id=given.id).update(created_at=late)
    found = calls.noop.get_result(given.id)
    assert found.enqueued_at == found.started_at == found.last_attempted_at == found.finished_at
