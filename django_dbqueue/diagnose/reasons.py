"""What keeps a ready job waiting."""

from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import FloatField
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..conf import conf
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
from ..texts.wording import digits, duration, number, rate_word
from ..worker.served import RUNNABLE
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
    yield from _of_deaths(facts)
    if key := key_of(facts):
        yield from of_key(facts, key)
    count = jobs_ahead(facts)
    if count > JOBS_AHEAD_MAX:
        text = _("%(number)s or more ready jobs of its queue are before it: more urgent, or older.")
        yield text % {"number": number(JOBS_AHEAD_MAX)}
    elif count:
        text = ngettext(
            "%(number)s ready job of its queue is before it: more urgent, or older.",
            "%(number)s ready jobs of its queue are before it: more urgent, or older.",
            count,
        )
        yield text % {"number": number(count)}
    else:
        yield _("It is the next one of its queue.")


def _of_deaths(facts: Facts) -> Iterator[str]:
    if facts.crashes:
        text = _(
            "Its worker died with it %(number)s times (the third time buries it): it runs in a "
            "child apart from the others."
        )
        if facts.crashes == 1:
            text = _(
                "Its worker died with it once (the third time buries it): it runs in a child "
                "apart from the others."
            )
        elif facts.crashes == MAX_CRASHES - 1:
            text = _(
                "Its worker died with it twice (the third time buries it): it runs in a child "
                "apart from the others."
            )
        yield text % {"number": facts.crashes}
    elif facts.losses >= SUSPECT_LOSSES:
        text = ngettext(
            "Its whole worker was lost with it %(number)s time: it runs in a child apart from the "
            "others.",
            "Its whole worker was lost with it %(number)s times: it runs in a child apart from the "
            "others.",
            facts.losses,
        )
        yield text % {"number": facts.losses}


def of_pause(facts: Facts) -> Iterator[str]:
    alias, until = facts.table.connection.alias, facts.table.dialect.seconds_until("paused_until")
    pauses = Queue.objects.db_manager(alias).pauses(facts.table.job_table)
    rows = pauses.filter(name__in=[*_names(facts), ALL])
    left = RawSQL(until, (), FloatField())  # noqa: S611  # the name is our own
    for queue in rows.annotate(left=left):
        yield _paused(queue)


def _paused(queue: Any) -> str:
    end = pause_end(queue.paused_until)
    if not is_for_good(queue.paused_until) and queue.left is not None:
        left = {"end": end, "time": duration(float(queue.left))}
        end = _("%(end)s, for %(time)s more") % left
    if queue.pause_reason:
        end = f"{end} ({queue.pause_reason})"
    text = _("Its queue, %(queue)s, is paused %(end)s.")
    if queue.job_table == ALL:
        text = _("Everything is paused %(end)s.")
    elif queue.name == ALL:
        text = _("Its whole table is paused %(end)s.")
    return text % {"queue": queue.name, "end": end}


def of_rate(facts: Facts) -> Iterator[str]:
    limiter = limiter_of(facts.table.model)
    if limiter is None or facts.table.policy.limiter:
        return  # its app tells
    if rates := limiter.rates(facts.queue):
        buckets = RateBucket.objects.db_manager(facts.table.connection.alias)
        name = limiter.bucket_of(facts.queue)
        if buckets.peek(facts.table.job_table, name, rates).is_empty:
            shown = ", ".join(map(rate_word, rates))
            text = _("The rate of its queue, %(queue)s (%(rate)s), is used up for now.")
            yield text % {"queue": facts.queue, "rate": shown}


def _names(facts: Facts) -> set[str]:
    """Its queue, and where that is a lane the one it belongs to."""
    return {facts.queue, base_of(facts.table.model, facts.queue)}


def of_workers(facts: Facts) -> Iterator[str]:
    workers, label = list_workers(facts.table.connection.alias), facts.table.label
    queues, runnable = _names(facts), RUNNABLE.get(label)
    # Else only a server of tubes takes it, which runs nothing itself; its app tells of that.
    is_run = runnable is None or bool(queues.intersection(runnable()))
    serving = [
        one
        for one in workers
        if (is_run or not one.pool.slots) and any(one.takes(label, queue) for queue in queues)
    ]
    willing = [one for one in serving if one.state == "alive"]
    if not willing:
        yield from _of_the_unwilling([one for one in serving if one.state != "stopped"])
    if not is_run:
        return
    if not willing:
        text = _("No living worker serves its queue. Start one: %(command)s")
        yield text % {"command": f"manage.py runworker {label}"}
        return
    names = ", ".join(one.name for one in willing[:NAMED_WORKERS_MAX])
    dots = " ..." if willing[NAMED_WORKERS_MAX:] else ""
    text = _("A worker serves its queue: %(names)s.")
    if len(willing) > 1:
        text = ngettext(
            "%(number)s worker serves its queue: %(names)s.",
            "%(number)s workers serve its queue: %(names)s.",
            len(willing),
        )
    yield text % {"number": number(len(willing)), "names": f"{names}{dots}"}
    for one in [one for one in willing if one.trouble][:NAMED_WORKERS_MAX]:
        text = _("Worker %(name)s is in trouble: %(trouble)s.")
        yield text % {"name": one.name, "trouble": one.trouble}


def of_version(facts: Facts) -> Iterator[str]:
    if not facts.min_version:
        return
    workers, label = list_workers(facts.table.connection.alias), facts.table.label
    queues = _names(facts)
    serving = [w for w in workers if w.lives and any(w.takes(label, name) for name in queues)]
    able = [one for one in serving if one.code_version >= facts.min_version]
    newest = max((one.code_version for one in serving), default=None)
    if able:
        text = _(
            "It needs code of version %(version)s or newer (its min_version), which %(able)s of "
            "%(living)s living workers have."
        )
    elif newest is None:
        text = _(
            "It is held back for code of version %(version)s or newer (its min_version). Deploy "
            "that code, with CODE_VERSION set."
        )
    else:
        text = _(
            "It is held back for code of version %(version)s or newer (its min_version): the "
            "newest living worker that serves it has %(newest)s. Deploy that code, with "
            "CODE_VERSION set."
        )
    numbers = {"able": len(able), "living": len(serving), "newest": newest}
    yield text % {"version": facts.min_version, **numbers}


def of_reapers(facts: Facts) -> Iterator[str]:
    """Where nobody lives who takes a job back."""
    workers = [one for one in list_workers(facts.table.connection.alias) if one.lives]
    if not any(one.reaps(facts.table.label) for one in workers):
        yield _("Nobody lives to do it: start a worker, or manage.py runreaper.")


def of_silence(seconds: float) -> Iterator[str]:
    """What becomes of the jobs of a worker whose last beat is so long ago."""
    timeout = float(conf["WORKER_TIMEOUT"])
    if seconds > timeout:
        text = _("That worker has not beaten for %(time)s: after %(seconds)s s others take over.")
        yield text % {"time": duration(seconds), "seconds": digits(f"{timeout:g}")}
    elif seconds > late_beat():
        text = _("Its last beat is %(time)s ago: in %(left)s it counts as dead.")
        yield text % {"time": duration(seconds), "left": duration(timeout - seconds)}


def of_limit(facts: Facts) -> Iterator[str]:
    """How full its queue is, where that has an end."""
    limits = limits_of(facts.table.model, facts.queue)
    if limits.max_length is None:
        return
    length = length_of(facts.table, facts.queue, limits.max_length + 1)
    text = _("Its queue holds %(number)s of at most %(most)s jobs that have not ended.")
    yield text % {"number": number(length), "most": number(limits.max_length)}
    if limits.when_full == "drop_oldest" and facts.status != Status.CLAIMED:
        yield _(
            "When that is full, it may be dropped for a newer job that is as urgent, or more so."
        )


def of_app(facts: Facts) -> list[str]:
    reasons = REASONS.get(facts.table.label)
    return reasons(facts.table, facts.key) if reasons else []


def _of_the_unwilling(workers: list[ListedWorker]) -> Iterator[str]:
    words = {
        "paused": _("Worker %(name)s is paused by a signal (SIGCONT lets it go on)."),
        "draining": _("Worker %(name)s was asked to drain, and claims nothing."),
        "stopping": _("Worker %(name)s is stopping."),
        "silent": _("Worker %(name)s has not beaten for %(time)s, and counts as dead."),
    }
    for one in workers[:NAMED_WORKERS_MAX]:
        yield words[one.state] % {"name": one.name, "time": duration(one.beat_seconds)}
    more = len(workers) - NAMED_WORKERS_MAX
    if more > 0:
        text = ngettext(
            "Nor does any of %(number)s more claim from it.",
            "Nor does any of %(number)s more claim from it.",
            more,
        )
        yield text % {"number": number(more)}
