"""What has happened to a job, and what comes next, in the order of time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.safestring import SafeString

from ..lifecycle.errors import VERBS, entries
from ..lifecycle.verdict import duration
from ..states import Status
from .words import time_tag


@dataclass(frozen=True)
class Event:
    """``kind``: the class of its mark. ``text`` and ``traceback`` are of the job's own making: for
    those who may inspect it."""

    kind: str
    title: str
    at: Any = None
    facts: str = ""
    text: str = ""
    traceback: str = ""

    @property
    def when(self) -> SafeString | str:
        return time_tag(self.at)


def timeline(job: Any, may_inspect: bool) -> list[Event]:
    """Who may not inspect it sees that and when attempts failed, but not what they said."""
    events = [Event("enqueued", "Enqueued", job.created_at)]
    ended: Any = job.created_at
    for one in entries(job.errors):
        event = _attempt(one, ended, may_inspect)
        ended = _end(one) or ended
        events.append(event)
    return [*events, *_now(job)]


def _attempt(one: dict[str, Any], ready_since: Any, may_inspect: bool) -> Event:
    number, started = one.get("attempt"), moment(one.get("started"))
    exception = str(one.get("exception") or "")
    said = str(one.get("message") or "") if may_inspect else ""
    shown = exception if exception not in VERBS else ""
    return Event(
        "failed",
        f"Attempt {number} failed" if number is not None else "Failed",
        started or None,
        ", ".join(_facts(one, started, ready_since)),
        ": ".join(filter(None, [shown, said])),
        str(one.get("traceback") or "") if may_inspect else "",
    )


def _facts(one: dict[str, Any], started: Any, ready_since: Any) -> Iterator[str]:
    waited = _between(ready_since, started)
    if waited is not None:
        yield f"waited {duration(waited)}"
    if isinstance(seconds := one.get("seconds"), int | float):
        yield f"ran {duration(seconds)}"
    if host := one.get("host"):
        yield f"on {host}"
    if owner := one.get("owner"):
        yield f"owner {owner}"


def _now(job: Any) -> Iterator[Event]:
    if job.crashes:
        yield Event("failed", f"Its worker died with it: {job.crashes} of 3 times")
    if job.status == Status.CLAIMED:
        yield Event("claimed", "Claimed", job.dequeued_time, f"owner {job.owner}")
        yield Event("next", "The claim ends", job.retry_at, "unless it is completed or touched")
    elif job.status == Status.DELAYED:
        yield Event("next", "Retry at" if job.attempts else "Becomes ready", job.retry_at)
    elif job.status == Status.DONE:
        waited = _between(job.created_at, job.dequeued_time)
        facts = "" if waited is None else f"claimed {duration(waited)} after it came"
        yield Event("done", job.state.capitalize(), job.finished_at, facts)
    elif job.status == Status.BURIED:
        yield Event("failed", "Buried", job.finished_at, "until somebody puts it back to work")
    if job.expires_at is not None and job.status in {Status.READY, Status.DELAYED}:
        yield Event("next", "Expires", job.expires_at)


def moment(text: Any) -> datetime | None:
    """The instant that an entry's text names; None where it names none."""
    try:
        found = parse_datetime(text)
    except (TypeError, ValueError):
        return None
    if found is None or timezone.is_aware(found):
        return found
    return found.replace(tzinfo=UTC)


def _end(one: dict[str, Any]) -> datetime | None:
    started, seconds = moment(one.get("started")), one.get("seconds")
    if started is None or not isinstance(seconds, int | float):
        return None
    try:
        return started + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None


def _between(one: Any, other: Any) -> float | None:
    """Seconds; None where either is unknown, or clocks disagree."""
    known = [_aware(at) for at in (one, other) if isinstance(at, datetime)]
    if len(known) < 2:
        return None
    seconds = (known[1] - known[0]).total_seconds()
    return seconds if seconds >= 0 else None


def _aware(at: datetime) -> datetime:
    return at if timezone.is_aware(at) else timezone.make_aware(at)
