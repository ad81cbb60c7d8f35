"""What is wrong with the queues, and what a person does about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from ..conf import conf
from ..metrics.numbers import sum_of
from ..models import Queue
from ..models.queue import ALL, is_for_good
from ..states import Status
from ..texts.wording import digits, duration, worker_state_word
from .overview import Overview, QueueOverview, in_words
from .worker_list import ListedWorker

FEW_ATTEMPTS = 20  # below so many no share is told
FAILURE_SHARE = 0.5  # of the last hour's attempts
NAMED_WORKERS_MAX = 5
# By what is paused.
RESUME = {
    "its queue": gettext_lazy(
        "Nothing is claimed from it meanwhile. Resume it on the page of the queues."
    ),
    "its whole table": gettext_lazy(
        "Nothing is claimed from it meanwhile. Resume it on the page of the queues."
    ),
    "everything": gettext_lazy(
        "Nothing is claimed from it meanwhile. manage.py dbqueue resume --all ends that."
    ),
}


@dataclass(frozen=True)
class Alert:
    """``is_urgent``: jobs are late or harmed by it now. ``kind``: database, worker, nobody, late,
    failing, buried or pause. ``queue`` and ``worker``: what it is about, and ``state``: the jobs of
    the queue to look at."""

    text: str
    advice: str
    is_urgent: bool = True
    kind: str = "database"
    queue: QueueOverview | None = None
    state: Status | None = None
    worker: ListedWorker | None = None


def alerts(found: Overview) -> list[Alert]:
    """The urgent ones first."""
    all_of_them = [
        Alert(
            _("%(name)s cannot be asked: %(why)s") % {"name": in_words(name), "why": why},
            _("The rest of the page goes on without it."),
        )
        for name, why in found.problems.items()
    ]
    for worker in found.workers:
        all_of_them += _of_worker(worker)
    for queue in found.queues:
        all_of_them += _of_queue(queue)
    all_of_them += _of_wide_pauses(found.queues)
    return sorted(all_of_them, key=lambda alert: not alert.is_urgent)


def _of_worker(worker: ListedWorker) -> Iterator[Alert]:
    beat = {"name": worker.name, "time": duration(worker.beat_seconds)}
    if worker.state == "silent":
        yield Alert(
            _("Worker %(name)s has not beaten for %(time)s.") % beat,
            _(
                "It counts as dead: others take over its jobs within seconds. Where no worker "
                "lives, start one: manage.py runworker."
            ),
            kind="worker",
            worker=worker,
        )
    if worker.lives and worker.beat_seconds > late_beat():
        advice = _(
            "At %(time)s it counts as dead, and its jobs run again elsewhere. Its host may be "
            "overloaded, or cut off from the database."
        )
        yield Alert(
            _("Worker %(name)s is late: it has not beaten for %(time)s.") % beat,
            advice % {"time": duration(conf["WORKER_TIMEOUT"])},
            is_urgent=False,
            kind="worker",
            worker=worker,
        )
    if worker.lives and worker.trouble:
        yield Alert(
            _("Worker %(name)s: %(trouble)s.") % {"name": worker.name, "trouble": worker.trouble},
            _(
                "Look at the database's own log: a full disk, a lock that somebody holds, or a "
                "server that is read-only."
            ),
            kind="worker",
            worker=worker,
        )


def late_beat() -> float:
    """Seconds after which a beat is late; that of a worker that lives may be, for a while."""
    return float(max(conf["WORKER_TIMEOUT"] / 2, 2 * conf["BEAT_INTERVAL"]))


def _of_queue(queue: QueueOverview) -> Iterator[Alert]:
    name, oldest = named(queue), queue.oldest_seconds or 0
    if queue.paused is not None:
        if queue.paused.name != ALL:
            yield _of_pause(name, queue.paused, [queue], queue.queue)
        return
    if queue.waits and not any(worker.state == "alive" for worker in queue.workers):
        yield _of_nobody(queue, name)
    elif oldest > queue.late_after:
        yield Alert(
            _late(queue) % {"name": name, "time": duration(oldest), "rate": queue.rate},
            _(
                "More comes in than goes out: start more workers, with more --processes or "
                "--threads, or look what they run for so long."
            ),
            kind="late",
            queue=queue,
            state=Status.READY,
        )
    share, attempts = queue.hour.failure_share, queue.hour.completed + queue.hour.failed
    if share is not None and share > FAILURE_SHARE and attempts >= FEW_ATTEMPTS:
        text = _("%(name)s: %(share)s%% of the attempts of the last hour failed.")
        yield Alert(
            text % {"name": name, "share": digits(f"{100 * share:.0f}")},
            _("Read the errors of buried and delayed jobs; retry them once the cause is gone."),
            kind="failing",
            queue=queue,
            state=Status.BURIED if queue.counts.get(Status.BURIED) else Status.DELAYED,
        )


def named(queue: QueueOverview) -> str:
    """With its table."""
    return _("%(table)s, queue %(queue)s") % {"table": queue.title, "queue": queue.queue}


def _late(queue: QueueOverview) -> str:
    """The sentence, with what else its jobs may wait for."""
    if queue.oldest_has_key and queue.rate:
        return _(
            "%(name)s: the oldest ready job waits for %(time)s, perhaps most of it for its "
            "concurrency key, perhaps for its rate (%(rate)s)."
        )
    if queue.oldest_has_key:
        return _(
            "%(name)s: the oldest ready job waits for %(time)s, perhaps most of it for its "
            "concurrency key."
        )
    if queue.rate:
        return _(
            "%(name)s: the oldest ready job waits for %(time)s, perhaps for its rate (%(rate)s)."
        )
    return _("%(name)s: the oldest ready job waits for %(time)s.")


def _of_wide_pauses(queues: list[QueueOverview]) -> Iterator[Alert]:
    """One for each pause of a whole table or of everything, not one for each of its queues."""
    wide: dict[tuple[str | None, str], list[QueueOverview]] = {}
    for queue in queues:
        if queue.paused is not None and queue.paused.name == ALL:
            wide.setdefault((queue.paused._state.db, queue.paused.job_table), []).append(queue)
    for (alias, job_table), held in wide.items():
        if job_table == ALL:
            what = _("Everything on %(database)s") % {"database": alias}
        else:
            what = _("All of %(table)s") % {"table": held[0].title}
        yield _of_pause(what, cast("Queue", held[0].paused), held)


def _of_pause(what: str, pause: Queue, held: list[QueueOverview], queue: str = "") -> Alert:
    """``queue``: which one, where it may be a lane of the one that is paused."""
    ready = sum_of(one.count(Status.READY) for one in held)
    end = pause_end(pause.paused_until)
    if queue and queue != pause.name:
        end = _("%(end)s, with %(queue)s") % {"end": end, "queue": pause.name}
    if pause.pause_reason:
        text = _("%(what)s is paused %(end)s: %(reason)s. Ready jobs that wait: %(ready)s.")
    else:
        text = _("%(what)s is paused %(end)s. Ready jobs that wait: %(ready)s.")
    values = {"what": what, "end": end, "reason": pause.pause_reason, "ready": ready}
    return Alert(
        text % values,
        str(RESUME[pause.scope]),
        is_urgent=False,
        kind="pause",
        queue=held[0],
        state=Status.READY,
    )


def _of_nobody(queue: QueueOverview, name: str) -> Alert:
    state = Status.CLAIMED if queue.abandoned else Status.DELAYED
    state = Status.READY if queue.counts.get(Status.READY) else state
    about: dict[str, Any] = {"kind": "nobody", "queue": queue, "state": state}
    if not queue.workers:
        start = _("Its jobs wait. Start a worker: %(command)s")
        start %= {"command": f"manage.py runworker {queue.title}"}
        text = _("%(name)s: no living worker serves it.") % {"name": name}
        return Alert(text, start, **about)
    named_ones = queue.workers[:NAMED_WORKERS_MAX]
    said = ", ".join(f"{one.name} ({worker_state_word(one.state)})" for one in named_ones)
    text = _("%(name)s: no worker claims from it now: %(workers)s.")
    return Alert(
        text % {"name": name, "workers": said},
        _(
            "Its jobs wait. Let a worker go on (manage.py dbqueue workers --resume NAME), or start "
            "one more."
        ),
        **about,
    )


def pause_with_scope(pause: Queue) -> str:
    """Until when, and what else is paused by the same word."""
    end = pause_end(pause.paused_until)
    if pause.name != ALL:
        return end
    if pause.job_table == ALL:
        return _("%(end)s, with everything") % {"end": end}
    return _("%(end)s, with its whole table") % {"end": end}


def pause_end(paused_until: Any) -> str:
    """In words."""
    if not isinstance(paused_until, datetime) or is_for_good(paused_until):
        return pgettext("a queue is paused", "until somebody resumes it")
    aware = timezone.is_aware(paused_until)
    local = timezone.localtime(paused_until) if aware else paused_until
    return _("until %(time)s") % {"time": f"{local:%Y-%m-%d %H:%M}"}
