"""What is wrong with the queues, and what a person does about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from django.utils import timezone

from ..conf import conf
from ..lifecycle.claim_end import duration
from ..metrics.numbers import sum_of
from ..models import Queue
from ..models.queue import ALL, is_for_good
from ..states import Status
from .overview import Overview, QueueOverview
from .worker_list import ListedWorker

FEW_ATTEMPTS = 20  # below so many no share is told
FAILURE_SHARE = 0.5  # of the last hour's attempts
NAMED_WORKERS_MAX = 5
# By what is paused.
RESUME = {
    "its queue": "Resume it on the page of the queues.",
    "its whole table": "Resume it on the page of the queues.",
    "everything": "manage.py dbqueue resume --all ends that.",
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
        Alert(f"{name} cannot be asked: {why}", "The rest of the page goes on without it.")
        for name, why in found.problems.items()
    ]
    for worker in found.workers:
        all_of_them += _of_worker(worker)
    for queue in found.queues:
        all_of_them += _of_queue(queue)
    all_of_them += _of_wide_pauses(found.queues)
    return sorted(all_of_them, key=lambda alert: not alert.is_urgent)


def _of_worker(worker: ListedWorker) -> Iterator[Alert]:
    if worker.state == "silent":
        yield Alert(
            f"Worker {worker.name} has not beaten for {duration(worker.beat_seconds)}.",
            "It counts as dead: others take over its jobs within seconds. Where no worker "
            "lives, start one: manage.py runworker.",
            kind="worker",
            worker=worker,
        )
    if worker.lives and worker.beat_seconds > late_beat():
        yield Alert(
            f"Worker {worker.name} is late: it has not beaten for {duration(worker.beat_seconds)}.",
            f"At {duration(conf['WORKER_TIMEOUT'])} it counts as dead, and its jobs run again "
            "elsewhere. Its host may be overloaded, or cut off from the database.",
            is_urgent=False,
            kind="worker",
            worker=worker,
        )
    if worker.lives and worker.trouble:
        yield Alert(
            f"Worker {worker.name}: {worker.trouble}.",
            "Look at the database's own log: a full disk, a lock that somebody holds, or a "
            "server that is read-only.",
            kind="worker",
            worker=worker,
        )


def late_beat() -> float:
    """Seconds after which a beat is late; that of a worker that lives may be, for a while."""
    return float(max(conf["WORKER_TIMEOUT"] / 2, 2 * conf["BEAT_INTERVAL"]))


def _of_queue(queue: QueueOverview) -> Iterator[Alert]:
    name, oldest = f"{queue.title}, queue {queue.queue}", queue.oldest_seconds or 0
    if queue.paused is not None:
        if queue.paused.name != ALL:
            lane = "" if queue.paused.name == queue.queue else f", with {queue.paused.name}"
            yield _of_pause(f"{name} is", queue.paused, lane, [queue])
        return
    if queue.waits and not any(worker.state == "alive" for worker in queue.workers):
        yield _of_nobody(queue, name)
    elif oldest > conf["LATE_AFTER"]:
        by_key = ", perhaps most of it for its concurrency key" if queue.oldest_has_key else ""
        by_rate = f", perhaps for its rate ({queue.rate})" if queue.rate else ""
        yield Alert(
            f"{name}: the oldest ready job waits for {duration(oldest)}{by_key}{by_rate}.",
            "More comes in than goes out: start more workers, with more --processes or "
            "--threads, or look what they run for so long.",
            kind="late",
            queue=queue,
            state=Status.READY,
        )
    share, attempts = queue.hour.failure_share, queue.hour.completed + queue.hour.failed
    if share is not None and share > FAILURE_SHARE and attempts >= FEW_ATTEMPTS:
        yield Alert(
            f"{name}: {share:.0%} of the attempts of the last hour failed.",
            "Read the errors of buried and delayed jobs; retry them once the cause is gone.",
            kind="failing",
            queue=queue,
            state=Status.BURIED if queue.counts.get(Status.BURIED) else Status.DELAYED,
        )


def _of_wide_pauses(queues: list[QueueOverview]) -> Iterator[Alert]:
    """One for each pause of a whole table or of everything, not one for each of its queues."""
    wide: dict[tuple[str | None, str], list[QueueOverview]] = {}
    for queue in queues:
        if queue.paused is not None and queue.paused.name == ALL:
            wide.setdefault((queue.paused._state.db, queue.paused.job_table), []).append(queue)
    for (alias, job_table), held in wide.items():
        what = f"Everything on {alias} is" if job_table == ALL else f"All of {held[0].title} is"
        yield _of_pause(what, cast("Queue", held[0].paused), "", held)


def _of_pause(what: str, pause: Queue, lane: str, held: list[QueueOverview]) -> Alert:
    reason = f": {pause.pause_reason}" if pause.pause_reason else ""
    ready = sum_of(queue.count(Status.READY) for queue in held)
    return Alert(
        f"{what} paused {pause_end(pause.paused_until)}{lane}{reason}. "
        f"Ready jobs that wait: {ready}.",
        f"Nothing is claimed from it meanwhile. {RESUME[pause.scope]}",
        is_urgent=False,
        kind="pause",
        queue=held[0],
        state=Status.READY,
    )


def _of_nobody(queue: QueueOverview, name: str) -> Alert:
    state = Status.READY if queue.counts.get(Status.READY) else Status.DELAYED
    about: dict[str, Any] = {"kind": "nobody", "queue": queue, "state": state}
    if not queue.workers:
        start = f"Its jobs wait. Start a worker: manage.py runworker {queue.title}"
        return Alert(f"{name}: no living worker serves it.", start, **about)
    said = ", ".join(f"{one.name} ({one.state})" for one in queue.workers[:NAMED_WORKERS_MAX])
    return Alert(
        f"{name}: no worker claims from it now: {said}.",
        "Its jobs wait. Let a worker go on (manage.py dbqueue workers --resume NAME), or start one "
        "more.",
        **about,
    )


def scope_of(pause: Queue) -> str:
    """What else is paused by the same word."""
    return f", with {pause.scope}" if pause.name == ALL else ""


def pause_end(paused_until: Any) -> str:
    """In words."""
    if not isinstance(paused_until, datetime) or is_for_good(paused_until):
        return "until somebody resumes it"
    aware = timezone.is_aware(paused_until)
    local = timezone.localtime(paused_until) if aware else paused_until
    return f"until {local:%Y-%m-%d %H:%M}"
