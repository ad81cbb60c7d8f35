"""What keeps a ready job waiting."""

from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import FloatField
from django.db.models.expressions import RawSQL

from ..conf import conf
from ..fields import DbNow
from ..lifecycle.claim_end import duration
from ..lifecycle.limiter import base_of, limiter_of
from ..lifecycle.policy import MAX_CRASHES, SUSPECT_LOSSES
from ..lifecycle.table import Table
from ..models import Queue, RateBucket
from ..models.queue import is_for_good
from ..monitor.alerts import late_beat, pause_end
from ..monitor.worker_list import ListedWorker, list_workers
from .facts import JOBS_AHEAD_MAX, Facts, jobs_ahead

NAMED_WORKERS_MAX = 3
# By label, what only a queue app knows of a job that has not ended well: one sentence each.
REASONS: dict[str, Callable[[Table, Any], list[str]]] = {}


def of_waiting(facts: Facts) -> Iterator[str]:
    """One sentence each, what matters most first."""
    yield from of_pause(facts)
    yield from of_rate(facts)
    yield from of_workers(facts)
    if facts.crashes:
        words = {1: "once", MAX_CRASHES - 1: "twice"}
        times = words.get(facts.crashes, f"{facts.crashes} times")
        yield (
            f"Its worker died with it {times} (the third time buries it): it runs in a child apart "
            "from the others."
        )
    elif facts.losses >= SUSPECT_LOSSES:
        times = f"Its whole worker was lost with it {facts.losses} times"
        yield f"{times}: it runs in a child apart from the others."
    count = jobs_ahead(facts)
    if count:
        shown = f"{JOBS_AHEAD_MAX:,} or more" if count > JOBS_AHEAD_MAX else f"{count:,}"
        jobs = "ready job of its queue is" if count == 1 else "ready jobs of its queue are"
        yield f"{shown} {jobs} before it: more urgent, or older."
    else:
        yield "It is the next one of its queue."


def of_pause(facts: Facts) -> Iterator[str]:
    alias, until = facts.table.connection.alias, facts.table.dialect.seconds_until("paused_until")
    rows = Queue.objects.using(alias).filter(
        job_table=facts.table.job_table, name__in=_names(facts), paused_until__gt=DbNow()
    )
    left = RawSQL(until, (), FloatField())  # noqa: S611  # the name is our own
    for queue in rows.annotate(left=left):
        is_open = is_for_good(queue.paused_until) or queue.left is None
        more = "" if is_open else f", for {duration(float(queue.left))} more"
        reason = f" ({queue.pause_reason})" if queue.pause_reason else ""
        yield f"Its queue, {queue.name}, is paused {pause_end(queue.paused_until)}{more}{reason}."


def of_rate(facts: Facts) -> Iterator[str]:
    limiter = limiter_of(facts.table.model)
    if limiter is None or facts.table.policy.limiter:
        return  # its app tells
    if rates := limiter.rates(facts.queue):
        buckets = RateBucket.objects.db_manager(facts.table.connection.alias)
        name = limiter.bucket_of(facts.queue)
        if buckets.peek(facts.table.job_table, name, rates).is_empty:
            shown = ", ".join(map(str, rates))
            yield f"The rate of its queue, {facts.queue} ({shown}), is used up for now."


def _names(facts: Facts) -> set[str]:
    """Its queue, and where that is a lane the one it belongs to."""
    return {facts.queue, base_of(facts.table.model, facts.queue)}


def of_workers(facts: Facts) -> Iterator[str]:
    workers, label = list_workers(facts.table.connection.alias), facts.table.label
    served = {label, *[f"{label}:{name}" for name in _names(facts)]}
    serving = [one for one in workers if served & set(one.serves)]
    willing = [one for one in serving if one.state == "alive"]
    if not willing:
        yield from _of_the_unwilling([one for one in serving if one.state != "stopped"])
        yield f"No living worker serves its queue. Start one: manage.py runworker {label}"
        return
    count = "A worker serves" if len(willing) == 1 else f"{len(willing)} workers serve"
    names = ", ".join(one.name for one in willing[:NAMED_WORKERS_MAX])
    dots = " ..." if willing[NAMED_WORKERS_MAX:] else ""
    yield f"{count} its queue: {names}{dots}."
    for one in [one for one in willing if one.trouble][:NAMED_WORKERS_MAX]:
        yield f"Worker {one.name} is in trouble: {one.trouble}."


def of_reapers(facts: Facts) -> Iterator[str]:
    """Where nobody lives who takes a job back."""
    workers = [one for one in list_workers(facts.table.connection.alias) if one.lives]
    # A reaper of its own serves nothing.
    if not any(not one.serves or one.knows(facts.table.label) for one in workers):
        yield "Nobody lives to do it: start a worker, or manage.py runreaper."


def of_silence(seconds: float) -> Iterator[str]:
    """What becomes of the jobs of a worker whose last beat is so long ago."""
    timeout = float(conf["WORKER_TIMEOUT"])
    if seconds > timeout:
        yield (
            f"That worker has not beaten for {duration(seconds)}: after {timeout:g} s others "
            f"take over."
        )
    elif seconds > late_beat():
        yield (
            f"Its last beat is {duration(seconds)} ago: in {duration(timeout - seconds)} it counts "
            f"as dead."
        )


def of_app(facts: Facts) -> list[str]:
    reasons = REASONS.get(facts.table.label)
    return reasons(facts.table, facts.key) if reasons else []


def _of_the_unwilling(workers: list[ListedWorker]) -> Iterator[str]:
    for one in workers[:NAMED_WORKERS_MAX]:
        why = {
            "paused": "is paused by a signal (SIGCONT lets it go on)",
            "draining": "was asked to drain, and claims nothing",
            "stopping": "is stopping",
            "silent": f"has not beaten for {duration(one.beat_seconds)}, and counts as dead",
        }
        yield f"Worker {one.name} {why.get(one.state, one.state)}."
    more = len(workers) - NAMED_WORKERS_MAX
    if more > 0:
        yield f"Nor does any of {more} more claim from it."
