"""What keeps a ready job waiting."""

from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import FloatField
from django.db.models.expressions import RawSQL

from ..conf import conf
from ..fields import DbNow
from ..lifecycle.claim_end import duration
from ..lifecycle.policy import MAX_CRASHES, SUSPECT_LOSSES
from ..lifecycle.table import Table
from ..models import Queue
from ..models.queue import is_for_good
from ..monitor.alerts import late_beat, pause_end
from ..monitor.worker_list import ListedWorker
from .facts import MOST_BEFORE, Facts, before, members_of, serving

MOST_NAMED = 3
# By label, what only a queue app knows of a job that has not ended well: one sentence each.
REASONS: dict[str, Callable[[Table, Any], list[str]]] = {}


def of_waiting(facts: Facts) -> Iterator[str]:
    """One sentence each, what matters most first."""
    yield from of_pause(facts)
    yield from of_workers(facts)
    yield from _of_crashes(facts)
    count = before(facts)
    if count:
        shown = f"{MOST_BEFORE:,} or more" if count > MOST_BEFORE else f"{count:,}"
        jobs = "ready job of its queue is" if count == 1 else "ready jobs of its queue are"
        yield f"{shown} {jobs} before it: more urgent, or older."
    else:
        yield "It is the next one of its queue."


def _of_crashes(facts: Facts) -> Iterator[str]:
    if facts.crashes:
        times = f"{_times(facts.crashes)} (the third time buries it)"
        yield f"Its worker died with it {times}: it runs in a child apart from the others."
    elif facts.losses >= SUSPECT_LOSSES:
        times = f"Its whole worker was lost with it {facts.losses} times"
        yield f"{times}: it runs in a child apart from the others."


def of_pause(facts: Facts) -> Iterator[str]:
    alias, until = facts.table.connection.alias, facts.table.dialect.seconds_until("paused_until")
    rows = Queue.objects.using(alias).filter(
        job_table=facts.table.job_table, name=facts.queue, paused_until__gt=DbNow()
    )
    left = RawSQL(until, (), FloatField())  # noqa: S611  # the name is our own
    for queue in rows.annotate(left=left):
        is_open = is_for_good(queue.paused_until) or queue.left is None
        more = "" if is_open else f", for {duration(float(queue.left))} more"
        reason = f" ({queue.pause_reason})" if queue.pause_reason else ""
        yield f"Its queue, {facts.queue}, is paused {pause_end(queue.paused_until)}{more}{reason}."


def of_workers(facts: Facts) -> Iterator[str]:
    all_of_them = serving(facts, members_of(facts.table))
    willing = [member for member in all_of_them if member.state == "alive"]
    if not willing:
        yield from _of_the_unwilling([one for one in all_of_them if one.state != "stopped"])
        yield (
            f"No living worker serves its queue. Start one: manage.py runworker {facts.table.label}"
        )
        return
    names = ", ".join(member.name for member in willing[:MOST_NAMED])
    dots = " ..." if willing[MOST_NAMED:] else ""
    yield f"{_workers(len(willing))} its queue: {names}{dots}."
    for one in [member for member in willing if member.trouble][:MOST_NAMED]:
        yield f"Worker {one.name} is in trouble: {one.trouble}."


def of_reapers(facts: Facts) -> Iterator[str]:
    """Where nobody lives who takes a job back."""
    if not any(one.lives and _reaps(one, facts) for one in members_of(facts.table)):
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


def _reaps(member: ListedWorker, facts: Facts) -> bool:
    # A reaper of its own serves nothing.
    return not member.serves or member.knows(facts.table.label)


def _of_the_unwilling(members: list[ListedWorker]) -> Iterator[str]:
    yield from map(_unwilling, members[:MOST_NAMED])
    more = len(members) - MOST_NAMED
    if more > 0:
        yield f"Nor does any of {more} more claim from it."


def _unwilling(member: ListedWorker) -> str:
    why = {
        "paused": "is paused by a signal (SIGCONT lets it go on)",
        "draining": "was asked to drain, and claims nothing",
        "stopping": "is stopping",
        "silent": f"has not beaten for {duration(member.beat_seconds)}, and counts as dead",
    }
    return f"Worker {member.name} {why.get(member.state, member.state)}."


def _workers(count: int) -> str:
    return "A worker serves" if count == 1 else f"{count} workers serve"


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == MAX_CRASHES - 1 else f"{count} times"
