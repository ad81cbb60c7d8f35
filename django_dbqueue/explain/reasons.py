"""What keeps a ready job waiting."""

from collections.abc import Callable, Iterator
from typing import Any

from ..fields import DbNow
from ..lifecycle.policy import MAX_CRASHES
from ..lifecycle.table import Table
from ..lifecycle.verdict import duration
from ..models import Queue
from ..models.queue import is_for_good
from ..roster import Member
from .facts import MOST_BEFORE, Facts, before, members_of, serving

# By label, what only a queue app knows: why a job of its table waits, one sentence each.
REASONS: dict[str, Callable[[Table, Any], list[str]]] = {}


def of_waiting(facts: Facts) -> Iterator[str]:
    """One sentence each, what matters most first."""
    yield from of_pause(facts)
    yield from of_workers(facts)
    if facts.crashes:
        yield (
            f"Its worker died with it {_times(facts.crashes)} (the third time buries it): it runs "
            f"alone in a child, as soon as one has nothing else in hand."
        )
    count = before(facts)
    if count:
        shown = f"{MOST_BEFORE:,} or more" if count > MOST_BEFORE else f"{count:,}"
        verb = "is" if count == 1 else "are"
        yield f"{shown} ready jobs of its queue {verb} before it: more urgent, or older."
    else:
        yield "It is the next one of its queue."
    yield from of_app(facts)


def of_pause(facts: Facts) -> Iterator[str]:
    rows = Queue.objects.using(facts.table.connection.alias).filter(
        job_table=facts.table.label, name=facts.queue, paused_until__gt=DbNow()
    )
    for queue in rows:
        reason = f" ({queue.pause_reason})" if queue.pause_reason else ""
        until = "until somebody resumes it"
        if not is_for_good(queue.paused_until):
            until = f"until {queue.paused_until:%Y-%m-%d %H:%M:%S}"
        yield f"Its queue, {facts.queue}, is paused {until}{reason}."


def of_workers(facts: Facts) -> Iterator[str]:
    all_of_them = serving(facts, members_of(facts.table))
    willing = [member for member in all_of_them if member.state == "alive"]
    if willing:
        names = ", ".join(member.name for member in willing[:3])
        yield f"{_workers(len(willing))} its queue: {names}{' ...' if willing[3:] else ''}."
        return
    yield from map(_unwilling, [one for one in all_of_them if one.lives or one.state == "silent"])
    yield f"No living worker serves its queue. Start one: manage.py runworker {facts.table.label}"


def of_app(facts: Facts) -> list[str]:
    reasons = REASONS.get(facts.table.label)
    return reasons(facts.table, facts.key) if reasons else []


def _unwilling(member: Member) -> str:
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
