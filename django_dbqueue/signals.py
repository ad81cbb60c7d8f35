"""Django signals with the lifecycle's nouns: ``sender`` is the queue table, ``job`` the job.

They are sent after the change is written, outside any transaction of ours, by the process that
made it. A receiver that raises is logged and changes nothing. ``job_started`` comes on the job's
thread, the others on the finisher's, where a slow receiver holds up outcomes; what a supervisor or
a reaper has to tell is sent by a process of its own.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.dispatch import Signal

from . import events
from .guard import capture

if TYPE_CHECKING:
    from .lifecycle.claim_end import RetryDecision
    from .lifecycle.reap import Reaped
    from .lifecycle.table import Table

job_started = Signal(use_caching=True)  # job
job_completed = Signal(use_caching=True)  # job
job_failed = Signal(use_caching=True)  # job, error, retry_in: seconds, or None when it is buried
job_buried = Signal(use_caching=True)  # job, error; whatever buried it, but for people
job_expired = Signal(use_caching=True)  # job
# job, error: why it was taken from its owner, or None: unharmed
job_reaped = Signal(use_caching=True)

worker_started = Signal(use_caching=True)  # sender: Worker; in every child, before its first job
worker_stopped = Signal(use_caching=True)  # sender: Worker; in every child, after its last job


def subscribe() -> None:
    """From here on what happens to jobs is sent; what was reaped its dispatcher sends."""
    events.started.subscribe(_send_started)
    events.completed.subscribe(_send_completed)
    events.failed.subscribe(_send_failed)
    events.expired.subscribe(_send_expired)


def send(signal: Signal, sender: type[Any], **more: Any) -> None:
    """Whatever a receiver raises is logged."""
    if signal.receivers and signal.has_listeners(sender):
        # send_robust() does that, but lets a receiver end the process.
        with capture():
            signal.send_robust(sender=sender, **more)


def send_reaped(table: "Table", reaped: "list[Reaped]") -> None:
    """Of reaped jobs, as they are by now."""
    jobs = table.model._base_manager.using(table.connection.alias)
    for one in reaped:
        for job in jobs.filter(pk=one.held.key):
            send(job_reaped, table.model, job=job, error=one.error)
            if one.decision.is_buried:
                send(job_buried, table.model, job=job, error=one.error)


def is_reaping_heard(table: "Table") -> bool:
    """Whether anybody wants to hear of reaped jobs."""
    return any(signal.has_listeners(table.model) for signal in (job_reaped, job_buried))


def _send_started(table: "Table", job: Any) -> None:
    send(job_started, table.model, job=job)


def _send_completed(table: "Table", done: "Sequence[tuple[Any, float]]") -> None:
    if job_completed.has_listeners(table.model):
        for job, _ in done:
            send(job_completed, table.model, job=job)


def _send_failed(
    table: "Table", job: Any, error: Exception, _: float, decision: "RetryDecision", __: str
) -> None:
    retry_in = None if decision.is_buried else decision.delay
    send(job_failed, table.model, job=job, error=error, retry_in=retry_in)
    if decision.is_buried:
        send(job_buried, table.model, job=job, error=error)


def _send_expired(table: "Table", job: Any) -> None:
    send(job_expired, table.model, job=job)
