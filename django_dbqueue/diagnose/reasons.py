"""What keeps a ready job waiting."""

from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import FloatField
from django.db.models.expressions import RawSQL

from ..conf import conf
from ..lifecycle.claim_end import duration
from ..lifecycle.limiter import base_of, limiter_of
from ..lifecycle.limits import limits_of
from ..lifecycle.policy import MAX_CRASHES, SUSPECT_LOSSES
from ..lifecycle.room import length_of
from ..lifecycle.table import Table
from ..models import Queue, RateBucket
from ..models.queue import ALL, is_for_good
from ..monitor.alerts import late_beat, pause_end
from ..monitor.worker_list import ListedWorker, list_workers
from ..states import Status
from .facts import JOBS_AHEAD_MAX, Facts, jobs_ahead
from .keys import key_of, of_key

NAMED_WORKERS_MAX = 3
# By label, what only a queue app knows of a job that has not ended well: one sentence each.
REASONS: dict[str, Callable[[Table, Any], list[str]]] = {}


def of_waiting(facts: Facts) -> Iterator[str]:
    """One sentence each, what matters most first."""
    yield from of_pause(facts)
    yield from of_rate(facts)
    yield from of_workers(facts)
    yield from of_version(facts)
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
    if key := key_of(facts):
        yield from of_key(facts, key)
    count = jobs_ahead(facts)
    if count:
        shown = f"{JOBS_AHEAD_MAX:,} or more" if count > JOBS_AHEAD_MAX else f"{count:,}"
        jobs = "ready job of its queue is" if count == 1 else "ready jobs of its queue are"
        yield f"{shown} {jobs} before it: more urgent, or older."
    else:
        yield "It is the next one of its queue."


def of_pause(facts: Facts) -> Iterator[str]:
    alias, until = facts.table.connection.alias, facts.table.dialect.seconds_until("paused_until")
    pauses = Queue.objects.db_manager(alias).pauses(facts.table.job_table)
    rows = pauses.filter(name__in=[*_names(facts), ALL])
    left = RawSQL(until, (), FloatField())  # noqa: S611  # the name is our own
    for queue in rows.annotate(left=left):
        is_open = is_for_good(queue.paused_until) or queue.left is None
        more = "" if is_open else f", for {duration(float(queue.left))} more"
        reason = f" ({queue.pause_reason})" if queue.pause_reason else ""
        is_whole = queue.name == ALL
        what = queue.scope.capitalize() if is_whole else f"Its queue, {queue.name},"
        yield f"{what} is paused {pause_end(queue.paused_until)}{more}{reason}."


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
    queues = _names(facts)
    serving = [one for one in workers if any(one.takes(label, queue) for queue in queues)]
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


def of_version(facts: Facts) -> Iterator[str]:
    if not facts.min_version:
        return
    workers, label = list_workers(facts.table.connection.alias), facts.table.label
    queues = _names(facts)
    serving = [w for w in workers if w.lives and any(w.takes(label, name) for name in queues)]
    able = [one for one in serving if one.code_version >= facts.min_version]
    needed = f"code of version {facts.min_version} or newer (its min_version)"
    if able:
        yield f"It needs {needed}, which {len(able)} of {len(serving)} living workers have."
        return
    newest = max((one.code_version for one in serving), default=None)
    have = "" if newest is None else f": the newest living worker that serves it has {newest}"
    yield f"It is held back for {needed}{have}. Deploy that code, with CODE_VERSION set."


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


def of_limit(facts: Facts) -> Iterator[str]:
    """How full its queue is, where that has an end."""
    limits = limits_of(facts.table.model, facts.queue)
    if limits.max_length is None:
        return
    length = length_of(facts.table, facts.queue, limits.max_length + 1)
    yield f"Its queue holds {length:,} of at most {limits.max_length:,} jobs that have not ended."
    if limits.when_full == "drop_oldest" and facts.status != Status.CLAIMED:
        yield "When that is full, it may be dropped for a newer job that is as urgent, or more so."


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
