"""A row of the queue table as the framework's ``TaskResult``."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from ..exceptions import Bury, QueueFull
from ..lifecycle.errors import entries
from ..states import Status
from .begun import has_begun
from .compat import TaskError, TaskResult, TaskResultStatus
from .lookup import find
from .queued_task import QueuedTask, option, restored

# Higher is more urgent there, and lower here.
MIDDLE_PRIORITY = 1024

STATUSES: dict[int, Any] = {
    Status.READY: TaskResultStatus.READY,
    Status.DELAYED: TaskResultStatus.READY,
    Status.CLAIMED: TaskResultStatus.RUNNING,
    Status.DONE: TaskResultStatus.SUCCESSFUL,
    Status.BURIED: TaskResultStatus.FAILED,
}


def result_of(row: Any, status: Any = None) -> Any:
    status = _status_of(row) if status is None else status
    kept = entries(row.errors)
    has_ended = status in {TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED}
    # Fetched ahead, it is claimed and has not begun.
    is_ahead = row.status == Status.CLAIMED and status == TaskResultStatus.READY
    claimed_at = None if is_ahead else row.dequeued_time
    attempted_at = claimed_at or (_began(kept[-1]) if kept else None)
    result = TaskResult(
        task=task_of(row),
        id=str(row.result_id),
        status=status,
        enqueued_at=row.created_at,
        started_at=_not_before(row, (_began(kept[0]) if kept else None) or attempted_at),
        finished_at=_not_before(row, row.finished_at) if has_ended else None,
        last_attempted_at=_not_before(row, attempted_at),
        args=row.args,
        kwargs=row.kwargs,
        backend=row.backend,
        errors=[_error(one) for one in kept] or _without_an_error(status, row),
        worker_ids=_worker_ids(row, kept, is_ahead=is_ahead),
    )
    if status == TaskResultStatus.SUCCESSFUL:
        object.__setattr__(result, "_return_value", row.return_value)
    return result


def _status_of(row: Any) -> Any:
    if row.status == Status.CLAIMED and not has_begun(row):
        return TaskResultStatus.READY
    if row.state == "expired":
        return TaskResultStatus.FAILED
    return STATUSES.get(row.status, TaskResultStatus.FAILED)


def new_result(task: Any, columns: Mapping[str, Any]) -> Any:
    """Of a row that was just made, by what was written."""
    run_after, backend = columns["run_after"], columns["backend"]
    is_same = (run_after, backend) == (task.run_after, task.backend)
    return TaskResult(
        task=task if is_same else restored(task, run_after=run_after, backend=backend),
        id=str(columns["result_id"]),
        status=TaskResultStatus.READY,
        enqueued_at=columns["created_at"],
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=columns["args"],
        kwargs=columns["kwargs"],
        backend=columns["backend"],
        errors=[],
        worker_ids=[],
    )


def task_of(row: Any) -> Any:
    """The task as it was enqueued; one that this code does not have any more can be read, too."""
    task = find(row.task_path).task or _missing(row.task_path)
    key = option(task, "dedup_key")
    return restored(
        task,
        priority=MIDDLE_PRIORITY - row.priority,
        queue_name=row.queue_name,
        run_after=row.run_after,
        backend=row.backend,
        max_attempts=row.max_attempts,
        time_to_run=row.time_to_run,
        **({"dedup_key": row.dedup_key} if isinstance(key, str) or not key else {}),
    )


def _missing(path: str) -> Any:
    def function(*_: Any, **__: Any) -> None:
        raise LookupError(f"{path} is not in this code")

    function.__module__, _, function.__qualname__ = path.rpartition(".")
    function.__name__ = function.__qualname__
    blank = object.__new__(QueuedTask)
    object.__setattr__(blank, "func", function)
    for name, field in QueuedTask.__dataclass_fields__.items():
        if name != "func":
            object.__setattr__(blank, name, field.default)
    object.__setattr__(blank, "takes_context", False)
    return blank


def _error(entry: dict[str, Any]) -> Any:
    name = str(entry.get("class") or entry.get("exception") or "builtins.Exception")
    path = name if "." in name else f"builtins.{name}"
    text = entry.get("traceback") or f"{name}: {entry.get('message', '')}"
    return TaskError(exception_class_path=path, traceback=str(text))


def _without_an_error(status: Any, row: Any) -> list[Any]:
    """A failure that no attempt of its own has led to."""
    if status != TaskResultStatus.FAILED:
        return []
    what = f"its row has the {row.state}"
    if row.state == "expired":
        what = "it had expired before it was run"
    elif row.status == Status.BURIED:
        what = "a person buried it"
    return [TaskError(exception_class_path=f"{Bury.__module__}.Bury", traceback=f"Bury: {what}")]


def _worker_ids(row: Any, kept: list[dict[str, Any]], *, is_ahead: bool) -> list[str]:
    """One for each attempt. Of those whose error is kept no more, or whose worker was lost as a
    whole, nobody knows it; the latter may not have begun."""
    tried = [one for one in kept if one.get("exception") != QueueFull.__name__ or one.get("owner")]
    owners = [str(one.get("owner") or "") for one in tried]
    if row.owner and row.status in {Status.CLAIMED, Status.DONE} and not is_ahead:
        owners.append(row.owner)
    known = [owner.partition(".")[0] for owner in owners]
    return ["unknown"] * (row.attempts - is_ahead + row.losses - len(known)) + known


def _not_before(row: Any, moment: datetime | None) -> datetime | None:
    """The clocks of a process and of a database may differ, and SQLite's knows no microseconds."""
    if moment is None or row.created_at is None:
        return moment
    return max(moment, row.created_at)  # type: ignore[no-any-return]


def _began(entry: dict[str, Any]) -> datetime | None:
    """When an attempt was claimed, as its row said before it ended; else what its worker said."""
    return _moment(entry.get("claimed")) or _moment(entry.get("started"))


def _moment(text: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    if timezone.is_aware(timezone.now()):
        return found
    return timezone.make_naive(found, timezone.get_default_timezone())
