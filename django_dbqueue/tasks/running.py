"""Calling a task's function."""

from typing import Any

from asgiref.sync import sync_to_async

from .compat import TaskResultStatus
from .context import Context
from .results import result_of


def call(task: Any, row: Any) -> Any:
    """What the function returns."""
    if not task.takes_context:
        return task.call(*row.args, **row.kwargs)
    return task.call(_context(row), *row.args, **row.kwargs)


async def acall(task: Any, row: Any) -> Any:
    """The same, of a coroutine function; of one that is none any more, in a thread."""
    if not task.takes_context:
        return await task.acall(*row.args, **row.kwargs)
    context = await sync_to_async(_context)(row)
    return await task.acall(context, *row.args, **row.kwargs)


def _context(row: Any) -> Context:
    """What the claim did not fetch is read by one statement."""
    whole = type(row)._base_manager.using(row._state.db).get(pk=row.pk)
    return Context(task_result=result_of(whole, status=TaskResultStatus.RUNNING), job=row)
