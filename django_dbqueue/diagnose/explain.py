"""One job's state, and what comes next, in sentences."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError

from ..exceptions import Bury, QueueFull
from ..lifecycle.claim_end import duration
from ..lifecycle.policy import MAX_CRASHES
from ..lifecycle.table import Table
from ..models import Worker
from ..monitor.worker_list import running_jobs, state_of, with_ages
from ..states import Status
from .facts import OWNER_OF_A_WORKER, Facts, read
from .keys import key_of, of_key
from .reasons import (
    of_app,
    of_limit,
    of_pause,
    of_reapers,
    of_silence,
    of_version,
    of_waiting,
    of_workers,
)

PROMOTION_SECONDS = 2.0  # that it may take


class UnknownJob(ValueError):
    """No job of the table or its archive has this key."""


@dataclass
class Explanation:
    """The state in one word, and sentences: why it is so, and what comes next.

    ``until``: by column, the seconds from now, by the database's clock; negative where it is past.
    """

    state: str
    sentences: list[str] = field(default_factory=list)
    until: dict[str, float | None] = field(default_factory=dict)


def explain(table: Table, key: Any) -> Explanation:
    """Why a job is not running, by the database's clock; ``UnknownJob`` where there is none.

    A few queries, whatever the table holds; no message of an error is told, but its name.
    """
    with table.dialect.decode_leniently():
        facts = read(table, _db_key(table, key))
        if facts is None:
            return explain_archived(table, key)
        say = SENTENCES.get(facts.status)
        if say is None:
            words = f"Its status, {facts.status!r}, means nothing: somebody wrote it by hand."
            return Explanation("unknown", [words, "No worker will ever take it: cancel it."])
        return Explanation(_state(facts), list(say(facts)), facts.until)


def explain_archived(table: Table, key: Any) -> Explanation:
    """How a job ended that is in the archive; ``UnknownJob`` where there is none."""
    label = table.policy.archive
    archive: Any = apps.get_model(label) if label else None
    facts = read(table, _db_key(table, key), archive) if archive else None
    if facts is None:
        raise UnknownJob(f"{table.label} {key}: there is no such job, and none in the archive")
    if facts.status == Status.DONE:
        state, ended = _state(facts), list(_completed(facts))
    elif facts.status == Status.BURIED:
        was_cancelled = [] if _was_dropped(facts) else ["It was cancelled after that."]
        state, ended = _state(facts), [*_parked(facts), *was_cancelled]
    else:
        was = dict(Status.choices).get(facts.status)
        state, ended = "cancelled", [f"It was cancelled{f' while it was {was}' if was else ''}."]
    return Explanation(state, [*ended, f"It is kept in the archive, {label}."], facts.until)


def _state(facts: Facts) -> str:
    if facts.status == Status.DELAYED and facts.until["retry_at"] is None and key_of(facts):
        return "waiting for its key"
    return "expired" if _has_expired(facts) else str(Status(facts.status).label)


def _has_expired(facts: Facts) -> bool:
    until = facts.until
    is_done = facts.status == Status.DONE
    return is_done and until["dequeued_time"] is None and until["expires_at"] is not None


def _db_key(table: Table, key: Any) -> Any:
    try:
        value = table.model._meta.pk.to_python(key)
        table.model._meta.pk.run_validators(value)
        return table.db_key(value)
    except (ValidationError, ValueError, TypeError, OverflowError) as error:
        raise UnknownJob(f"{table.label}: {key!r:.80} is no key of a job") from error


def _ready(facts: Facts) -> Iterator[str]:
    expires = facts.until["expires_at"]
    if expires is not None and expires <= 0:
        yield f"It expired {duration(-expires)} ago: once claimed it is finished without a run."
    elif expires is not None:
        yield f"It expires in {duration(expires)}: if it is claimed later, it is not run."
    yield from of_waiting(facts)
    if facts.attempts:
        yield f"{_attempt(facts, facts.attempts + 1).capitalize()} comes next."
    yield from of_limit(facts)
    yield from _of_twins(facts, "claimed")
    yield from of_app(facts)


def _of_twins(facts: Facts, end: str) -> Iterator[str]:
    if facts.has_dedup_key:
        until = "done" if facts.table.policy.dedup_until == "done" else end
        yield f"Until it is {until}, enqueuing another with its dedup key yields this one."


def _delayed(facts: Facts) -> Iterator[str]:
    wait = facts.until["retry_at"]
    if wait is None and (key := key_of(facts)):
        yield from of_key(facts, key)
        yield from of_pause(facts)
        yield from of_workers(facts)
        yield from of_app(facts)
        return
    if wait is None:
        yield "It is delayed for ever: its retry_at was cleared by hand. Kick it."
        return
    if wait > 0 and not facts.attempts and facts.min_version:
        yield f"It becomes ready in {duration(wait)}, as was asked, or put off by older code."
    elif wait > 0 and not facts.attempts:
        yield f"It becomes ready in {duration(wait)}, as was asked."
    elif wait > 0 and facts.last_exception == "Retry":
        last = _attempt(facts, facts.attempts)
        yield f"It is retried in {duration(wait)}, as it asked for in {last}."
    elif wait > 0:
        by = f" ({facts.last_exception})" if facts.last_exception else ""
        last = _attempt(facts, facts.attempts)
        yield f"It is retried in {duration(wait)}, since {last} failed{by}."
    else:
        yield f"It has been due for {duration(-wait)}: a worker or a reaper makes it ready soon."
        if -wait > PROMOTION_SECONDS:
            yield "Where that takes longer, no worker and no reaper lives, or its row is locked."
    yield from of_pause(facts)
    yield from of_workers(facts)
    yield from of_version(facts)
    yield from _of_twins(facts, "claimed")
    yield from of_app(facts)


def _claimed(facts: Facts) -> Iterator[str]:
    match = OWNER_OF_A_WORKER.fullmatch(facts.owner or "")
    since = facts.ago("dequeued_time")
    held = "" if since is None else f" for {duration(since)}"
    if match:
        yield from _by_worker(facts, match[1], held)
    else:
        yield f"It is claimed{held} by {facts.owner or 'nobody'}, which is no worker of ours."
    left = facts.until["retry_at"]
    if left is None:
        yield "Its claim never ends: its retry_at was cleared by hand. Bury and kick it."
    elif left > 0:
        yield f"Its claim ends in {duration(left)}, unless it is touched."
    else:
        yield f"Its claim ended {duration(-left)} ago: a reaper takes it back."
        yield from of_reapers(facts)
    yield from of_app(facts)


def _by_worker(facts: Facts, uuid: str, held: str) -> Iterator[str]:
    rows = with_ages(Worker.objects.using(facts.table.connection.alias).filter(pk=uuid))
    worker = rows.first()
    if worker is None or state_of(worker) == "stopped":
        yield f"It is claimed{held} by a worker that is gone: a reaper takes it back."
        yield from of_reapers(facts)
        return
    yield f"Worker {worker} has it{held}."
    yield from of_silence(float(worker.beat_age or 0))
    if state_of(worker) == "silent":
        yield from of_reapers(facts)
    runs = dict(running_jobs(worker))
    name = f"{facts.table.label} {facts.key}"
    if name in runs:
        yield f"At its last beat it ran for {duration(float(runs[name] or 0))}."
    else:
        yield "At its last beat it did not run yet: it is fetched ahead, or has just begun."


def _buried(facts: Facts) -> Iterator[str]:
    yield from _parked(facts)
    yield from of_app(facts)
    yield "It stays until somebody puts it back to work (kick), with all its attempts."


def _parked(facts: Facts) -> Iterator[str]:
    when, most = facts.ago("finished_at"), facts.attempts_max
    held = "" if when is None else f" {_ago(when)}"
    if facts.crashes >= MAX_CRASHES:
        yield f"It was buried{held}: its worker died with it {facts.crashes} times."
    elif _was_dropped(facts):
        yield f"It was dropped{held}: its queue was full, and a newer job needed room."
    elif reason := _why_others_buried_it(facts):
        yield f"It was buried{held}: {reason}."
    elif facts.last_exception == "Bury" and facts.attempts:
        yield f"It was buried{held}, as it asked for itself."
    elif facts.attempts >= most:
        yield (
            f"It was buried{held}: {facts.attempts} of {most} attempts are used up, the last one "
            f"by {facts.last_exception or '?'}."
        )
    elif reason := facts.last_reason:
        yield f"It was buried{held}: {reason}."
    else:
        attempts = "1 attempt" if facts.attempts == 1 else f"{facts.attempts} attempts"
        yield f"It was buried{held} on request{f', after {attempts}' if facts.attempts else ''}."


def _was_dropped(facts: Facts) -> bool:
    """Else a job of its own raised that, which has an owner."""
    is_named = facts.last_exception == QueueFull.__name__
    return is_named and not facts.errors[-1].get("owner")


def _why_others_buried_it(facts: Facts) -> str:
    """Of a job whose key has a failed one before it; what a job raises itself has an owner."""
    if facts.last_exception != Bury.__name__ or facts.errors[-1].get("owner"):
        return ""
    return str(facts.errors[-1].get("message"))


def _done(facts: Facts) -> Iterator[str]:
    yield from _completed(facts)
    left = facts.until["retry_at"]
    if left is not None:
        where = "moves into the archive" if facts.table.policy.archive else "is deleted"
        yield f"It {where} {f'in {duration(left)}' if left > 0 else 'any moment'}."


def _completed(facts: Facts) -> Iterator[str]:
    finished, created = facts.ago("finished_at"), facts.ago("created_at")
    if _has_expired(facts):
        yield "It had expired when it was claimed: it was finished without a run."
    elif finished is None:
        yield "It is done; nobody wrote down since when."
    else:
        took = (
            "" if created is None else f", {duration(max(0.0, created - finished))} after it came"
        )
        yield f"It was completed {_ago(finished)}{took}."


def _ago(seconds: float) -> str:
    return "a moment ago" if seconds < 1 else f"{duration(seconds)} ago"


def _attempt(facts: Facts, number: int) -> str:
    return f"attempt {number} of {facts.attempts_max}"


SENTENCES: dict[Any, Callable[[Facts], Iterator[str]]] = {
    Status.READY: _ready,
    Status.CLAIMED: _claimed,
    Status.DONE: _done,
    Status.DELAYED: _delayed,
    Status.BURIED: _buried,
}
