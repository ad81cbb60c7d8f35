"""What happens to jobs and workers, in one structured log line each.

The fields of a line (table, queue, id, attempt, owner, worker, seconds, event) are attributes of
its log record, so that any formatter can use them.
"""

import logging
from collections.abc import Sequence
from typing import Any

from .. import events
from ..guard import message_of
from ..lifecycle.claim_end import RetryDecision
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table

logger = logging.getLogger("django_dbqueue")


def subscribe() -> None:
    """From here on what happens to jobs is logged."""
    events.started.subscribe(_started)
    events.completed.subscribe(_completed)
    events.failed.subscribe(_failed)
    events.expired.subscribe(_expired)
    events.lost.subscribe(_lost)
    events.gone.subscribe(_gone)
    events.reaped.subscribe(_reaped)


def log_event(level: int, event: str, message: str, *args: object, **fields: object) -> None:
    logger.log(level, message, *args, extra={"event": event, **fields})


def worker_of(owner: str | None) -> str | None:
    """The worker's short name, with which an owner begins."""
    return owner.partition(".")[0][:8] if owner else None


def _started(table: Table, job: Any) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        _log(logging.DEBUG, "job.started", "%s %s starts", table, job)


def _completed(table: Table, done: Sequence[tuple[Any, float]]) -> None:
    if not logger.isEnabledFor(logging.DEBUG):
        return
    for job, seconds in done:
        _log(
            logging.DEBUG,
            "job.completed",
            "%s %s completed",
            table,
            job,
            seconds=round(seconds, 4),
        )


def _failed(
    table: Table, job: Any, error: Exception, seconds: float, decision: RetryDecision, owner: str
) -> None:
    _log(
        logging.WARNING,
        "job.failed",
        "%s %s failed: %s: %s; attempt %d of %d, %s",
        table,
        job,
        type(error).__name__,
        message_of(error),
        job.attempts,
        table.policy.max_attempts,
        decision,
        owner=owner,
        seconds=round(seconds, 4),
    )


def _expired(table: Table, job: Any) -> None:
    _log(logging.INFO, "job.expired", "%s %s had expired: not run", table, job)


def _lost(table: Table, job: Any, owner: str, why: object) -> None:
    message = "%s %s: ClaimLost: it ran here, but another owner has it by now; %s"
    _log(logging.WARNING, "job.lost", message, table, job, why, owner=owner)


def _gone(table: Table, job: Any, owner: str) -> None:
    message = "%s %s was deleted while it ran; nothing to write"
    _log(logging.INFO, "job.gone", message, table, job, owner=owner)


def _reaped(table: Table, reaped: list[Reaped]) -> None:
    for one in reaped:
        held = one.held
        log_event(
            logging.INFO if one.error is None else logging.WARNING,
            "job.reaped",
            "%s %s was given back: %s",
            table.label,
            held.key,
            one.error or one.decision,
            table=table.label,
            queue=held.queue,
            id=held.key,
            attempt=held.attempts,
            owner=held.owner,
            worker=worker_of(held.owner),
        )


def _log(
    level: int,
    event: str,
    message: str,
    table: Table,
    job: Any,
    *args: object,
    owner: str | None = None,
    **more: object,
) -> None:
    if not logger.isEnabledFor(level):
        return
    owner = owner or job.claim_owner
    log_event(
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
