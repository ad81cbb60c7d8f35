"""What the first page shows, as JSON for machines; docs/observability.md has its shape."""

from math import isinf
from typing import Any

from ..metrics.due import STRETCH_MAX, DueJobs
from ..metrics.time_series import Quantiles, begin_of
from ..states import Status
from .failures import FailureGroup
from .glance import Glance
from .last_hour import LANES, MINUTES
from .overview import QueueOverview
from .running import Slot
from .verdict import Verdict
from .worker_list import ListedWorker

VERSION = 1  # another one once something is left out, renamed, or means something else
STATES = (Status.READY, Status.DELAYED, Status.CLAIMED, Status.BURIED)
RUNNING_MAX = 100  # jobs


def document(seen: Glance, *, sees_workers: bool) -> dict[str, Any]:
    """What only those are told who may see workers is None for the others."""
    found = seen.found
    workers = {
        "workers": [_worker(one) for one in found.workers],
        "running": [_slot(one) for one in seen.running[:RUNNING_MAX]],
        "more_running": len(seen.running[RUNNING_MAX:]),
    }
    return {
        "version": VERSION,
        "at": {alias: moment.isoformat() for alias, moment in seen.moments.items()},
        "verdict": _verdict(seen.verdict, sees_workers=sees_workers),
        "queues": [_queue(one) for one in found.queues],
        "more_queues": found.cut,
        "other_queues": [one.as_dict() for one in found.others],
        "last_hour": {lane: _minutes(seen, lane) for lane in LANES},
        "failures": [_failure(one) for one in seen.failures.groups],
        "more_failures": seen.failures.more_kinds,
        **(workers if sees_workers else dict.fromkeys(workers)),
        "due": {title: _due(jobs) for title, jobs in seen.due.items()},
        "problems": found.problems,
    }


def _verdict(one: Verdict, *, sees_workers: bool) -> dict[str, Any]:
    problems = [
        {
            "kind": it.kind,
            "text": it.text,
            "advice": it.advice,
            "urgent": it.is_urgent,
            "table": it.queue and it.queue.table,
            "database": it.queue and it.queue.database,
            "queue": it.queue and it.queue.queue,
            "worker": it.worker.uuid if it.worker and sees_workers else None,
        }
        for it in one.problems
    ]
    level, sentence = str(one.level), one.sentence
    return {"level": level, "sentence": sentence, "problems": problems, "paused": one.paused}


def _queue(one: QueueOverview) -> dict[str, Any]:
    drain, pause = one.drain_seconds, one.paused
    return {
        "table": one.table,
        "database": one.database,
        "queue": one.queue,
        "counts": {status.label: one.counts.get(status, 0) for status in STATES},
        "at_least": [status.label for status in STATES if status in one.at_least],
        "counted_seconds_ago": {
            status.label: round(seconds, 1) for status, seconds in one.seconds_ago.items()
        },
        "due": one.due,
        "due_at_least": one.due_at_least,
        "oldest_seconds": one.oldest_seconds,
        "late_after_seconds": one.late_after,
        **_times("waited", one.waited),
        **_times("ran", one.ran),
        "in_per_minute": one.hour.rate_in,
        "out_per_minute": one.hour.rate_out,
        "completed_last_hour": one.hour.completed,
        "failed_last_hour": one.hour.failed,
        "buried_last_hour": one.hour.buried,
        "drained_in_seconds": None if drain is None or isinf(drain) else round(drain, 1),
        "grows": drain is not None and isinf(drain),
        "next_due_in_seconds": one.next_seconds,
        "slots": one.slots,
        "busy_slots": one.busy,
        "workers": len(one.workers),
        "paused": pause is not None,
        "pause_reason": "" if pause is None else pause.pause_reason,
    }


def _times(name: str, times: Quantiles | None) -> dict[str, Any]:
    """The end and the beginning of a span, of which the last has no end."""
    found = None if times is None else times.p95
    return {
        f"{name}_p95_seconds": None if found is None or isinf(found) else found,
        f"{name}_p95_above_seconds": None if found is None else begin_of(found),
    }


def _minutes(seen: Glance, lane: str) -> list[float]:
    """Of all queues, the oldest minute first; the last one is not over."""
    sums = [0.0] * MINUTES
    for band in seen.last_hour.bands:
        sums = [a + b for a, b in zip(sums, band.values[lane], strict=True)]
    return [round(value, 1) for value in sums]


def _failure(one: FailureGroup) -> dict[str, Any]:
    """Without the words of the messages, which are for those who may inspect jobs."""
    return {
        "table": one.served.label,
        "database": one.served.using,
        "failure": one.fingerprint,
        "exception": one.failure.exception,
        "place": one.failure.place,
        "queues": one.queues,
        "last_hour": one.hour,
        "last_day": one.day,
        "buried": one.here.buried,
        "retrying": one.here.retrying,
        "at_least": one.here.is_at_least,
        "first_seen": one.first_seen and one.first_seen.isoformat(),
        "last_seen": one.last_seen and one.last_seen.isoformat(),
    }


def _worker(one: ListedWorker) -> dict[str, Any]:
    return {
        "worker": one.uuid,
        "name": one.name,
        "database": one.database,
        "state": one.state,
        "serves": one.serves,
        "started_seconds": one.started_seconds,
        "beat_seconds": one.beat_seconds,
        "running": one.running,
        "slots": one.pool.slots,
        "jobs_per_minute": one.jobs_per_minute,
        "memory": one.memory,
        "code_version": one.code_version,
        "trouble": one.trouble,
    }


def _slot(one: Slot) -> dict[str, Any]:
    return {
        "table": one.table,
        "key": one.key,
        "queue": one.queue,
        "worker": one.worker.uuid,
        "seconds": one.seconds and round(one.seconds, 1),
        "limit_seconds": one.limit,
    }


def _due(due: DueJobs) -> dict[str, Any]:
    """Counts up to ``most``; one more than that means that there are more."""
    return {
        "most": STRETCH_MAX,
        "hour": [one.number for one in due.hour],
        "day": [one.number for one in due.day],
        "later": due.later.number,
        "until": {
            "hour": [one.end and one.end.isoformat() for one in due.hour],
            "day": [one.end and one.end.isoformat() for one in due.day],
        },
    }
