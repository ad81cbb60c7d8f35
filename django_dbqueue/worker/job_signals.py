"""What happens to jobs, as Django's signals."""

from collections.abc import Sequence
from typing import Any

from django.dispatch import Signal

from .. import events, signals
from ..exceptions import recorded
from ..guard import capture
from ..lifecycle.claim_end import RetryDecision
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table


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


def send_reaped(table: Table, reaped: list[Reaped]) -> None:
    """Of reaped jobs, as they are by now."""
    jobs = table.model._base_manager.using(table.connection.alias)
    for one in reaped:
        for job in jobs.filter(pk=one.held.key):
            send(signals.job_reaped, table.model, job=job, error=one.error)
            if one.decision.is_buried:
                send(signals.job_buried, table.model, job=job, error=one.error)


def is_reaping_heard(table: Table) -> bool:
    """Whether anybody wants to hear of reaped jobs."""
    both = signals.job_reaped, signals.job_buried
    return any(signal.has_listeners(table.model) for signal in both)


def _send_started(table: Table, job: Any) -> None:
    if signals.job_started.receivers:  # asked for every job
        send(signals.job_started, table.model, job=job)


def _send_completed(table: Table, done: Sequence[tuple[Any, float]]) -> None:
    if signals.job_completed.has_listeners(table.model):
        for job, _ in done:
            send(signals.job_completed, table.model, job=job)


def _send_failed(
    table: Table, job: Any, error: Exception, _: float, decision: RetryDecision, __: str
) -> None:
    told: Any = {"job": job, "error": recorded(error)}
    retry_in = None if decision.is_buried else decision.delay
    send(signals.job_failed, table.model, **told, retry_in=retry_in)
    if decision.is_buried:
        send(signals.job_buried, table.model, **told)


def _send_expired(table: Table, job: Any) -> None:
    send(signals.job_expired, table.model, job=job)
