"""What a test of tasks may ask for: a task, with its arguments."""

from collections.abc import Callable
from typing import Any

from .compat import Task as AnyTask
from .models import AsyncTask, Task, TaskRow
from .queued_task import is_for_event_loop
from .results import MIDDLE_PRIORITY

Values = Callable[[Any], dict[str, Any] | None]


def jobs_of(asked: Any) -> tuple[type[TaskRow], str, Values] | None:
    """For ``assert_enqueued(task, args=[...], kwargs={...}, queue_name=..., priority=...)``."""
    if not isinstance(asked, AnyTask):
        return None
    path = asked.module_path

    def values(row: Any) -> dict[str, Any] | None:
        if row.task_path != path:
            return None
        return {
            "args": row.args,
            "kwargs": row.kwargs,
            "queue_name": row.queue_name,
            "priority": MIDDLE_PRIORITY - row.priority,
            "run_after": row.run_after,
            "backend": row.backend,
        }

    return AsyncTask if is_for_event_loop(asked) else Task, path, values
