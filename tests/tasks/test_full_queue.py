"""Tasks whose queue is full."""

import pytest
from asgiref.sync import async_to_sync

from django_dbqueue.exceptions import QueueFull
from django_dbqueue.tasks import compat
from django_dbqueue.tasks.models import Task
from tests.kit.bounds import limits
from tests.tasks import calls
from tests.tasks.test_backend import backend, work_off

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]
TASK = "dbqueue_tasks.task"


def test_a_task_is_refused_by_each_way_to_enqueue():
    with limits(TASK, max_length=1):
        calls.add.enqueue(1, b=2)
        with pytest.raises(QueueFull):
            calls.add.enqueue(1, b=2)
        with pytest.raises(QueueFull):
            async_to_sync(calls.add.aenqueue)(1, b=2)
        with pytest.raises(QueueFull):
            backend().enqueue_many([(calls.add, [1], {"b": 2})])
    assert Task.objects.count() == 1


def test_a_dropped_task_has_failed_and_its_result_says_why():
    heard = []

    def hear(task_result, **_):
        heard.append((task_result.id, task_result.status))

    compat.signals.task_finished.connect(hear)
    try:
        with limits(TASK, max_length=1, when_full="drop_oldest"):
            first = calls.add.enqueue(1, b=2)
            second = calls.add.enqueue(3, b=4)
    finally:
        compat.signals.task_finished.disconnect(hear)
    first.refresh()
    assert heard == [(first.id, compat.TaskResultStatus.FAILED)]
    assert first.status == compat.TaskResultStatus.FAILED
    assert (first.attempts, first.worker_ids, first.started_at) == (0, [], None)
    [error] = first.errors
    assert error.exception_class is QueueFull
    assert "system busy" in error.traceback
    work_off()
    second.refresh()
    assert second.return_value == 7
