"""What happens to jobs: one structured log line each, and a signal.

The fields of a line (table, queue, id, attempt, owner, worker, seconds, event) are attributes of
its log record, so that any formatter can use them.
"""

import logging
from typing import TYPE_CHECKING, Any

from django.dispatch import Signal

from . import signals
from .guard import caught, message_of

if TYPE_CHECKING:
    from .lifecycle.reap import Reaped
    from .lifecycle.retry_decision import RetryDecision
    from .lifecycle.table import Table

logger = logging.getLogger("django_dbqueue")


def worker_of(owner: str | None) -> str | None:
    """The worker's short name, with which an owner begins."""
    return owner.partition(".")[0][:8] if owner else None


def say(level: int, event: str, message: str, *args: object, **fields: object) -> None:
    logger.log(level, message, *args, extra={"event": event, **fields})


def started(table: "Table", job: Any) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        _of_job(logging.DEBUG, "job.started", "%s %s starts", table, job)
    _send(signals.job_started, table, job)


def are_completions_heard(table: "Table") -> bool:
    return logger.isEnabledFor(logging.DEBUG) or signals.job_completed.has_listeners(table.model)


def completed(table: "Table", job: Any, seconds: float) -> None:
    message, seconds = "%s %s completed", round(seconds, 4)
    _of_job(logging.DEBUG, "job.completed", message, table, job, seconds=seconds)
    _send(signals.job_completed, table, job)


def failed(
    table: "Table", job: Any, error: Exception, seconds: float, verdict: "RetryDecision", owner: str
) -> None:
    name, most = type(error).__name__, table.policy.max_attempts
    attempt = f"attempt {job.attempts} of {most}"
    _of_job(
        logging.WARNING,
        "job.failed",
        "%s %s failed: %s: %s; %s, %s",
        table,
        job,
        name,
        message_of(error),
        attempt,
        verdict,
        owner=owner,
        seconds=round(seconds, 4),
    )
    retry_in = None if verdict.is_buried else verdict.delay
    _send(signals.job_failed, table, job, error=error, retry_in=retry_in)
    if verdict.is_buried:
        _send(signals.job_buried, table, job, error=error)


def expired(table: "Table", job: Any) -> None:
    _of_job(logging.INFO, "job.expired", "%s %s had expired: not run", table, job)
    _send(signals.job_expired, table, job)


def lost(table: "Table", job: Any, owner: str, error: object = "it may run twice") -> None:
    message = "%s %s: ClaimLost: it ran here, but another owner has it by now; %s"
    _of_job(logging.WARNING, "job.lost", message, table, job, error, owner=owner)


def gone(table: "Table", job: Any, owner: str) -> None:
    message = "%s %s was deleted while it ran; nothing to write"
    _of_job(logging.INFO, "job.gone", message, table, job, owner=owner)


def reaped(table: "Table", ones: list["Reaped"]) -> None:
    """Jobs were taken from owners that are gone or over their time."""
    for one in ones:
        held = one.held
        say(
            logging.INFO if one.error is None else logging.WARNING,
            "job.reaped",
            "%s %s was given back: %s",
            table.label,
            held.key,
            one.error or one.verdict,
            table=table.label,
            queue=held.queue,
            id=held.key,
            attempt=held.attempts,
            owner=held.owner,
            worker=worker_of(held.owner),
        )


def announced(table: "Table", ones: list["Reaped"]) -> None:
    """Send the signals of what was reaped, with the jobs as they are by now."""
    jobs = table.model._base_manager.using(table.connection.alias)
    for one in ones:
        for job in jobs.filter(pk=one.held.key):
            _send(signals.job_reaped, table, job, error=one.error)
            if one.verdict.is_buried:
                _send(signals.job_buried, table, job, error=one.error)


def has_listeners(table: "Table") -> bool:
    """Whether anybody wants to hear of reaped jobs."""
    both = signals.job_reaped, signals.job_buried
    return any(signal.has_listeners(table.model) for signal in both)


def _of_job(
    level: int,
    event: str,
    message: str,
    table: "Table",
    job: Any,
    *args: object,
    owner: str | None = None,
    **more: object,
) -> None:
    if not logger.isEnabledFor(level):
        return
    owner = owner or job.claim_owner
    say(
        level,
        event,
        message,
        table.label,
        job.claim_key,
        *args,
        table=table.label,
        queue=job.queue,
        id=job.claim_key,
        attempt=job.attempts,
        owner=owner,
        worker=worker_of(owner),
        **more,
    )


def _send(signal: Signal, table: "Table", job: Any, **more: object) -> None:
    if signal.receivers and signal.has_listeners(table.model):
        # send_robust() logs what a receiver raises, but lets it end the process.
        caught(lambda: signal.send_robust(sender=table.model, job=job, **more))
