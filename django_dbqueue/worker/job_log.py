"""What happens to jobs and workers, in one structured log line each.

The fields of a line (table, queue, id, attempt, owner, worker, seconds, event) are attributes of
its log record, so that any formatter can use them.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from .. import events
from ..exceptions import recorded
from ..guard import message_of
from ..lifecycle.claim_end import RetryDecision, attempts_max
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table

logger = logging.getLogger("django_dbqueue")

LOST = "%s %s: ClaimLost: it ran here, but another owner has it by now; %s"
GONE = "%s %s was deleted while it ran; nothing to write"


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


def log_of_worker(event: str, message: str, uuid: str, name: str, *args: object) -> None:
    """``message`` begins with the worker."""
    worker = uuid[:8]
    shown = f"{name} ({worker})" if name else worker
    fields = {"worker": worker, "worker_name": name or None}
    log_event(logging.INFO, event, message, shown, *args, **fields)


def _log(
    level: int,
    event: str,
    message: str,
    table: Table,
    job: Any,
    owner: str | None = None,
    *args: object,
    **fields: object,
) -> None:
    """``message`` begins with the table and the job; then come ``args``."""
    if logger.isEnabledFor(level):
        owner = owner or job.claim_owner or (job.own_end and job.own_end.owner)
        fields |= _fields(table, job.queue, job.claim_key, job.attempts, owner)
        log_event(level, event, message, table.label, job.claim_key, *args, **fields)


def _fields(
    table: Table, queue: str, key: object, attempts: int, owner: str | None
) -> dict[str, object]:
    # The worker's short name: an owner begins with it.
    worker = owner.partition(".")[0][:8] if owner else None
    place = {"table": table.label, "queue": queue, "id": key, "attempt": attempts}
    return {**place, "owner": owner, "worker": worker}


def _started(table: Table, job: Any) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        _log(logging.DEBUG, "job.started", "%s %s starts", table, job)


_expired = partial(_log, logging.INFO, "job.expired", "%s %s had expired: not run")
_lost = partial(_log, logging.WARNING, "job.lost", LOST)
_gone = partial(_log, logging.INFO, "job.gone", GONE)


def _completed(table: Table, done: Sequence[tuple[Any, float]]) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        for job, seconds in done:
            message, ran = "%s %s completed", round(seconds, 4)
            _log(logging.DEBUG, "job.completed", message, table, job, seconds=ran)


def _failed(
    table: Table, job: Any, error: Exception, seconds: float, decision: RetryDecision, owner: str
) -> None:
    message, ran = "%s %s failed: %s: %s; attempt %d of %d, %s", round(seconds, 4)
    real, most = recorded(error), attempts_max(table.policy, job)
    what = type(real).__name__, message_of(real), job.attempts, most
    given = table, job, owner, *what, decision
    _log(logging.WARNING, "job.failed", message, *given, seconds=ran)


def _reaped(table: Table, reaped: list[Reaped]) -> None:
    for one in reaped:
        level = logging.INFO if one.error is None else logging.WARNING
        did = "was given back" if one.error is None else "was taken back"
        message, why, held = f"%s %s {did}: %s", one.error or one.decision, one.held
        fields = _fields(table, held.queue, held.key, held.attempts, held.owner)
        log_event(level, "job.reaped", message, table.label, held.key, why, **fields)
