"""What has happened to a job, and what comes next, in the order of time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from ..guard import clean
from ..lifecycle.errors import MAX_ERRORS, VERBS, entries
from ..lifecycle.policy import MAX_CRASHES
from ..lifecycle.reap import WorkerLost
from ..models import Job
from ..models.archived import UNENDED
from ..states import Status
from ..texts.wording import ago, duration, number, state_word
from .formatting import time_tag

WAITING = {Status.READY, Status.DELAYED}
ATTEMPTS_MAX = 1000  # among which missing ones are looked for
# What became of an attempt that was ended by one of these.
OUTCOMES = {
    "Retry": gettext_lazy("Attempt %(number)s asked for another one"),
    "Bury": gettext_lazy("Attempt %(number)s asked to be buried"),
    "TimeToRunExceeded": gettext_lazy("Attempt %(number)s took too long"),
}


@dataclass(frozen=True)
class Event:
    """``kind``: the class of its mark. ``text`` and ``traceback`` are of the job's own making: for
    those who may inspect it. ``age``: how long ago, or in how long."""

    kind: str
    title: Any
    at: Any = None
    facts: Any = ""
    text: str = ""
    traceback: str = ""
    age: str = ""

    @property
    def when(self) -> SafeString | str:
        return time_tag(self.at)


KICKED = Event(
    "kicked",
    gettext_lazy("Retried by a person"),
    facts=gettext_lazy("its attempts begin again"),
)


def timeline(
    job: Any, may_inspect: bool, now: datetime, may_name_workers: bool = True
) -> list[Event]:
    """Users who may not inspect it see that and when attempts failed, but not what they said; the
    host is for those who may see workers."""
    tried = _attempts(job, may_inspect, may_name_workers)
    events = [Event("enqueued", _("Enqueued"), job.created_at), *tried]
    return [replace(one, age=_age(one.at, now)) for one in [*events, *_now(job)]]


def _attempts(job: Any, may_inspect: bool, may_name_workers: bool) -> Iterator[Event]:
    found, ended, least = entries(job.errors), job.created_at, 0
    if not may_name_workers:
        found = [one | {"host": None} for one in found]
    if len(found) >= MAX_ERRORS:
        kept = _("Of its failures the last %(number)s are kept") % {"number": number(MAX_ERRORS)}
        yield Event("gap", kept)
    for one in found:
        which = _integer(one.get("attempt"))
        if which < least:
            yield KICKED
        yield _attempt(one, ended, may_inspect)
        ended = _end(one) or ended
        # Where its worker died, the attempt was taken back.
        least = which if _is_crash(one) else which + 1
    failed = _integer(job.attempts)
    if job.status == Status.CLAIMED or job.state == Status.DONE.label:
        failed -= 1  # the last one runs, or did well
    if found and failed < least - 1:
        yield KICKED
    elif failed < ATTEMPTS_MAX and len(found) < MAX_ERRORS:
        told = {_integer(one.get("attempt")) for one in found if not _is_crash(one)}
        if missing := len(set(range(1, failed + 1)) - told):
            text = _("Attempts that left no word: %(number)s") % {"number": number(missing)}
            yield Event("gap", text)


def _attempt(one: dict[str, Any], ready_since: Any, may_inspect: bool) -> Event:
    started, exception = moment(one.get("started")), _text(one.get("exception"))
    said = _text(one.get("message")) if may_inspect else ""
    shown = exception if exception not in VERBS else ""
    if _is_crash(one):
        title = _("Attempt %(number)s: its worker died with it; not charged")
    else:
        title = str(OUTCOMES.get(exception) or _("Attempt %(number)s failed"))
    which = one.get("attempt")
    return Event(
        "failed",
        title % {"number": which if isinstance(which, int) else "?"},
        _end(one) or started,
        ", ".join(_facts(one, started, ready_since)),
        ": ".join(filter(None, [shown, said])),
        _text(one.get("traceback")) if may_inspect else "",
    )


def _is_crash(one: dict[str, Any]) -> bool:
    return one.get("exception") == WorkerLost.__name__


def _text(value: Any) -> str:
    return "" if value is None else clean(str(value))


def _integer(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _facts(one: dict[str, Any], started: Any, ready_since: Any) -> Iterator[str]:
    waited = _between(ready_since, started)
    if waited is not None:
        yield _("waited %(time)s") % {"time": duration(waited)}
    if isinstance(seconds := one.get("seconds"), int | float):
        yield _("ran %(time)s") % {"time": duration(seconds)}
    if host := one.get("host"):
        yield _("on %(host)s") % {"host": _text(host)}
    if owner := one.get("owner"):
        yield _owner(_text(owner))


def _owner(name: str) -> str:
    return _("owner %(name)s") % {"name": name}


def _due(job: Any) -> Event:
    if getattr(job, "waits_for_key", False):
        return Event("next", _("Ready once its key is free"))
    title = _("Retry due") if job.attempts else pgettext("a job", "Due")
    return Event("next", title, job.retry_at)


def _now(job: Any) -> Iterator[Event]:
    yield from _deaths(job)
    is_archived = not isinstance(job, Job)
    if is_archived and job.status in UNENDED:
        was = {"state": state_word(Status(job.status).label)}
        facts = _("while it was %(state)s") % was
        yield Event("done", capfirst(state_word("cancelled")), None, facts)
    elif job.status == Status.CLAIMED:
        title = capfirst(state_word("claimed"))
        yield Event("claimed", title, job.dequeued_time, _owner(job.owner))
        ends = _("unless it is completed or touched")
        yield Event("next", _("The claim ends"), job.retry_at, ends)
    elif job.status == Status.DELAYED:
        yield _due(job)
    elif job.status == Status.DONE:
        title = capfirst(state_word(job.state))
        yield Event("done", title, job.finished_at, ", ".join(_run_facts(job)))
        if job.retry_at is not None and not is_archived:
            yield Event("next", _("Leaves the table"), job.retry_at)
    elif job.status == Status.BURIED:
        facts = "" if is_archived else _("until somebody puts it back to work")
        yield Event("failed", capfirst(state_word("buried")), job.finished_at, facts)
    if job.expires_at is not None and job.status in WAITING and not is_archived:
        yield Event("next", _("Expires"), job.expires_at)


def _deaths(job: Any) -> Iterator[Event]:
    if job.crashes:
        text = _("Its worker died with it: %(number)s of %(most)s times")
        yield Event("failed", text % {"number": job.crashes, "most": MAX_CRASHES})
    if job.losses:
        text = ngettext(
            "Lost with its whole worker: %(number)s time, not charged",
            "Lost with its whole worker: %(number)s times, not charged",
            job.losses,
        )
        yield Event("failed", text % {"number": job.losses})


def _run_facts(job: Any) -> Iterator[str]:
    waited = _between(job.created_at, job.dequeued_time)
    ran = _between(job.dequeued_time, job.finished_at)
    if waited is not None:
        yield _("claimed %(time)s after it came") % {"time": duration(waited)}
    if ran is not None:
        yield _("done %(time)s after that") % {"time": duration(ran)}
    if job.owner:
        yield _owner(job.owner)


def _age(at: Any, now: datetime) -> str:
    if not isinstance(at, datetime):
        return ""
    seconds = (_aware(now) - _aware(at)).total_seconds()
    if abs(seconds) < 1:
        return _("now")
    return ago(seconds) if seconds > 0 else _("in %(time)s") % {"time": duration(-seconds)}


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
