"""One job's state, and what comes next, in sentences."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from ..lifecycle.table import Table
from ..models import Worker
from ..monitor.worker_list import running_jobs, state_of, with_ages
from ..states import Status
from ..texts.wording import duration, state_word
from .facts import OWNER, Facts, read
from .keys import key_of, of_key
from .parked import parked, was_dropped, when
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
    """The state in one word, in English, and sentences in the language that is active: why it is
    so, and what comes next.

    ``until``: by column, the seconds from now, by the database's clock; negative where it is past.
    """

    state: str
    sentences: list[str] = field(default_factory=list)
    until: dict[str, float | None] = field(default_factory=dict)


def explain(table: Table, key: Any, hidden: Collection[str] = ()) -> Explanation:
    """Why a job is not running, by the database's clock; ``UnknownJob`` where there is none.

    A few queries, whatever the table holds; no message of an error is told, but its name, and the
    words of a ``Bury``. ``hidden``: of ``concurrency_key`` and ``errors``, which are not told.
    """
    with table.dialect.decode_leniently():
        facts = read(table, _db_key(table, key), hidden=hidden)
        if facts is None:
            return explain_archived(table, key, hidden)
        say = SENTENCES.get(facts.status)
        if say is None:
            words = _("Its status, %(status)s, means nothing: somebody wrote it by hand.")
            words %= {"status": repr(facts.status)}
            return Explanation("unknown", [words, _("No worker will ever take it: cancel it.")])
        return Explanation(_state(facts), list(say(facts)), facts.until)


def explain_archived(table: Table, key: Any, hidden: Collection[str] = ()) -> Explanation:
    """How a job ended that is in the archive; ``UnknownJob`` where there is none."""
    label = table.policy.archive
    archive: Any = apps.get_model(label) if label else None
    facts = read(table, _db_key(table, key), archive, hidden) if archive else None
    if facts is None:
        text = _("%(table)s %(key)s: there is no such job, and none in the archive")
        raise UnknownJob(text % {"table": table.label, "key": key})
    if facts.status == Status.DONE:
        state, ended = _state(facts), list(_completed(facts))
    elif facts.status == Status.BURIED:
        was_cancelled = [] if was_dropped(facts) else [_("It was cancelled after that.")]
        state, ended = _state(facts), [*parked(facts), *was_cancelled]
    else:
        was = dict(Status.choices).get(facts.status)
        text = _("It was cancelled while it was %(state)s.") if was else _("It was cancelled.")
        state, ended = "cancelled", [text % {"state": state_word(str(was))}]
    kept = _("It is kept in the archive, %(table)s.") % {"table": label}
    return Explanation(state, [*ended, kept], facts.until)


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
        text = _("%(table)s: %(key)s is no key of a job")
        raise UnknownJob(text % {"table": table.label, "key": f"{key!r:.80}"}) from error


def _ready(facts: Facts) -> Iterator[str]:
    expires = facts.until["expires_at"]
    if expires is not None and expires <= 0:
        text = _("It expired %(time)s ago: once claimed it is finished without a run.")
        yield text % {"time": duration(-expires)}
    elif expires is not None:
        text = _("It expires in %(time)s: if it is claimed later, it is not run.")
        yield text % {"time": duration(expires)}
    yield from of_waiting(facts)
    if facts.attempts:
        text = _("Attempt %(number)s of %(most)s comes next.")
        yield text % {"number": facts.attempts + 1, "most": facts.attempts_max}
    yield from of_limit(facts)
    yield from _of_twins(facts, "claimed")
    yield from of_app(facts)


def _of_twins(facts: Facts, end: str) -> Iterator[str]:
    if facts.has_dedup_key:
        text = _("Until it is %(state)s, enqueuing another with its dedup key yields this one.")
        until = "done" if facts.table.policy.dedup_until == "done" else end
        yield text % {"state": state_word(until)}


def _delayed(facts: Facts) -> Iterator[str]:
    wait = facts.until["retry_at"]
    if wait is None and (key := key_of(facts)):
        yield from of_key(facts, key)
        yield from of_pause(facts)
        yield from of_workers(facts)
        yield from of_app(facts)
        return
    if wait is None:
        yield _("It is delayed for ever: its retry_at was cleared by hand. Kick it.")
        return
    yield from _until_ready(facts, wait)
    yield from of_pause(facts)
    yield from of_workers(facts)
    yield from of_version(facts)
    yield from _of_twins(facts, "claimed")
    yield from of_app(facts)


def _until_ready(facts: Facts, wait: float) -> Iterator[str]:
    values = {
        "time": duration(abs(wait)),
        "number": facts.attempts,
        "most": facts.attempts_max,
        "error": facts.last_exception,
    }
    if wait <= 0:
        text = _("It has been due for %(time)s: a worker or a reaper makes it ready soon.")
    elif not facts.attempts and facts.min_version:
        text = _("It becomes ready in %(time)s, as was asked, or put off by older code.")
    elif not facts.attempts:
        text = _("It becomes ready in %(time)s, as was asked.")
    elif facts.last_exception == "Retry":
        text = _("It is retried in %(time)s, as it asked for in attempt %(number)s of %(most)s.")
    elif facts.last_exception:
        text = _(
            "It is retried in %(time)s, since attempt %(number)s of %(most)s failed (%(error)s)."
        )
    else:
        text = _("It is retried in %(time)s, since attempt %(number)s of %(most)s failed.")
    yield text % values
    if -wait > PROMOTION_SECONDS:
        yield _("Where that takes longer, no worker and no reaper lives, or its row is locked.")


def _claimed(facts: Facts) -> Iterator[str]:
    match = OWNER.fullmatch(facts.owner or "")
    since = facts.ago("dequeued_time")
    held = "" if since is None else duration(since)
    workers = Worker.objects.using(facts.table.connection.alias)
    worker = with_ages(workers.filter(pk=match[1])).first() if match else None
    if match and (match[2] or worker):
        yield from _by_worker(facts, worker, held, runs=bool(match[2]))
    else:
        text = _("It is claimed by %(owner)s, which is no worker of ours.")
        if held:
            text = _("It is claimed for %(time)s by %(owner)s, which is no worker of ours.")
        yield text % {"time": held, "owner": facts.owner or _("nobody")}
    left = facts.until["retry_at"]
    if left is None:
        yield _("Its claim never ends: its retry_at was cleared by hand. Bury and kick it.")
    elif left > 0:
        yield _("Its claim ends in %(time)s, unless it is touched.") % {"time": duration(left)}
    else:
        text = _("Its claim ended %(time)s ago: a reaper takes it back.")
        yield text % {"time": duration(-left)}
        yield from of_reapers(facts)
    yield from of_app(facts)


def _by_worker(facts: Facts, worker: Any, held: str, *, runs: bool) -> Iterator[str]:
    """``worker`` is its row, or None; it ``runs`` what it has, unless it is a server of tubes."""
    values = {"worker": worker, "time": held}
    if worker is None or state_of(worker) == "stopped":
        text = _("It is claimed by a worker that is gone: a reaper takes it back.")
        if held:
            text = _("It is claimed for %(time)s by a worker that is gone: a reaper takes it back.")
        yield text % values
        yield from of_reapers(facts)
        return
    text = _("Worker %(worker)s has it for %(time)s.") if held else _("Worker %(worker)s has it.")
    yield text % values
    yield from of_silence(float(worker.beat_age or 0))
    if state_of(worker) == "silent":
        yield from of_reapers(facts)
    if not runs:
        return
    running = dict(running_jobs(worker))
    name = f"{facts.table.label} {facts.key}"
    if name in running:
        ran = {"time": duration(float(running[name] or 0))}
        yield _("At its last beat it ran for %(time)s.") % ran
    else:
        yield _("At its last beat it did not run yet: it is fetched ahead, or has just begun.")


def _buried(facts: Facts) -> Iterator[str]:
    yield from parked(facts)
    yield from of_app(facts)
    yield _("It stays until somebody puts it back to work (kick), with all its attempts.")


def _done(facts: Facts) -> Iterator[str]:
    yield from _completed(facts)
    left = facts.until["retry_at"]
    if left is None:
        return
    if facts.table.policy.archive:
        soon, later = (
            _("It moves into the archive any moment."),
            _("It moves into the archive in %(time)s."),
        )
    else:
        soon, later = _("It is deleted any moment."), _("It is deleted in %(time)s.")
    yield later % {"time": duration(left)} if left > 0 else soon


def _completed(facts: Facts) -> Iterator[str]:
    finished, created = facts.ago("finished_at"), facts.ago("created_at")
    if _has_expired(facts):
        yield _("It had expired when it was claimed: it was finished without a run.")
    elif finished is None:
        yield _("It is done; nobody wrote down since when.")
    elif created is None:
        yield _("It was completed %(time)s.") % {"time": when(finished)}
    else:
        text = _("It was completed %(time)s, %(took)s after it came.")
        yield text % {"time": when(finished), "took": duration(max(0.0, created - finished))}


SENTENCES: dict[Any, Callable[[Facts], Iterator[str]]] = {
    Status.READY: _ready,
    Status.CLAIMED: _claimed,
    Status.DONE: _done,
    Status.DELAYED: _delayed,
    Status.BURIED: _buried,
}
