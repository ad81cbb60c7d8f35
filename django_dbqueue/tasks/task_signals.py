"""The framework's signals, sent when ours are: after what they tell is written."""

import logging
from functools import partial
from typing import Any

from .. import signals
from ..states import Status
from .backends import DatabaseBackend
from .compat import NAME, InvalidTaskBackend, TaskResult, TaskResultStatus, task_backends
from .compat import signals as task_signals
from .models import AsyncTask, Task
from .results import result_of, task_of

logger = logging.getLogger(NAME)


def connect() -> None:
    for signal, receiver in (
        (signals.job_started, _started),
        (signals.job_completed, _succeeded),
        (signals.job_buried, _failed),
        (signals.job_expired, _failed),
        (signals.job_dropped, _failed),
    ):
        for model in (Task, AsyncTask):
            signal.connect(receiver, sender=model, dispatch_uid="dbqueue_tasks")


def _started(job: Any, **_: Any) -> None:
    if job.found.task is None:
        return  # it only waits for code that has it
    _send(task_signals.task_started, task_signals.log_task_started, job, TaskResultStatus.RUNNING)


def _succeeded(job: Any, **_: Any) -> None:
    log = task_signals.log_task_finished
    _send(task_signals.task_finished, log, job, TaskResultStatus.SUCCESSFUL)


def _failed(job: Any, error: BaseException | None = None, **_: Any) -> None:
    log = task_signals.log_task_finished
    send = partial(_send, task_signals.task_finished, log, job, TaskResultStatus.FAILED)
    if error is None:
        send()
        return
    try:
        raise error
    except type(error):  # receivers ask for the error that is handled
        send()


def _send(signal: Any, log: Any, job: Any, status: Any) -> None:
    """Where the framework's own log is the only one to hear of it, the row is not read again, and
    nothing is made that it would not write."""
    if any(one[0][0] != id(log) for one in signal.receivers):
        row = type(job)._base_manager.using(job._state.db).filter(pk=job.pk).first()
        if row is not None:
            now = status if row.status == Status.CLAIMED else None
            signal.send_robust(_backend_class(job), task_result=result_of(row, now))
        return
    level = logging.ERROR if status == TaskResultStatus.FAILED else logging.INFO
    if signal.receivers and logger.isEnabledFor(level):
        log(_backend_class(job), _brief(job, status))


def _brief(job: Any, status: Any) -> Any:
    return TaskResult(
        # As the code has it: what using() has changed the log does not tell.
        task=job.found.task or task_of(job),
        id=str(job.result_id),
        status=status,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=job.args,
        kwargs=job.kwargs,
        backend=job.backend,
        errors=[],
        worker_ids=[],
    )


def _backend_class(job: Any) -> type:
    try:
        return type(task_backends[job.backend])
    except InvalidTaskBackend:
        return DatabaseBackend
