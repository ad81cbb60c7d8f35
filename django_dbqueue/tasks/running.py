"""Calling a task's function."""

from typing import Any

from .compat import TaskResultStatus
from .context import Context
from .results import result_of


def call(task: Any, row: Any) -> Any:
    """What the function returns."""
    if not task.takes_context:
        return task.call(*row.args, **row.kwargs)
    context = Context(task_result=running_result(row), job=row)
    return task.call(context, *row.args, **row.kwargs)


def running_result(row: Any) -> Any:
    """The result of a row that runs here; what the claim did not fetch is read by one statement."""
    whole = type(row)._base_manager.using(row._state.db).get(pk=row.pk)
    return result_of(whole, status=TaskResultStatus.RUNNING)
