"""What is wrong with the queues, and what a person does about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from ..conf import conf
from ..lifecycle.claim_end import duration
from ..models.queue import is_for_good
from ..states import Status
from .overview import Lane, Overview
from .worker_list import ListedWorker

FEW = 20  # attempts of which no share is told
SHARE = 0.5
MOST_NAMED = 5


@dataclass(frozen=True)
class Alert:
    """``is_urgent``: jobs are late or harmed by it now."""

    text: str
    advice: str
    is_urgent: bool = True


def alerts(found: Overview) -> list[Alert]:
    """The urgent ones first."""
    all_of_them = [*_of_databases(found), *_of_workers(found.members), *_of_lanes(found.lanes)]
    return sorted(all_of_them, key=lambda alert: not alert.is_urgent)


def _of_databases(found: Overview) -> Iterator[Alert]:
    for name, why in found.problems.items():
        yield Alert(f"{name} cannot be asked: {why}", "The rest of the page goes on without it.")


def _of_workers(members: list[ListedWorker]) -> Iterator[Alert]:
    for member in members:
        if member.state == "silent":
            yield Alert(
                f"Worker {member.name} has not beaten for {duration(member.beat_seconds)}.",
                "It counts as dead: others take over its jobs within seconds. Where no worker "
                "lives, start one: manage.py runworker.",
            )
        if member.lives and member.beat_seconds > late_beat():
            yield Alert(
                f"Worker {member.name} is late: it has not beaten for "
                f"{duration(member.beat_seconds)}.",
                f"At {duration(conf['WORKER_TIMEOUT'])} it counts as dead, and its jobs run again "
                "elsewhere. Its host may be overloaded, or cut off from the database.",
                is_urgent=False,
            )
        if member.lives and member.trouble:
            yield Alert(
                f"Worker {member.name}: {member.trouble}.",
                "Look at the database's own log: a full disk, a lock that somebody holds, or a "
                "server that is read-only.",
            )


def late_beat() -> float:
    """Seconds after which a beat is late; that of a worker that lives may be, for a while."""
    return float(max(conf["WORKER_TIMEOUT"] / 2, 2 * conf["BEAT_INTERVAL"]))


def _of_lanes(lanes: list[Lane]) -> Iterator[Alert]:
    for lane in lanes:
        name = f"{lane.table}, queue {lane.queue}"
        if lane.paused is not None:
            yield _of_pause(lane, name)
            continue
        if lane.waits and not any(one.state == "alive" for one in lane.workers):
            yield _of_nobody(lane, name)
        elif (lane.oldest_seconds or 0) > conf["LATE_AFTER"]:
            yield Alert(
                f"{name}: the oldest ready job waits for {duration(lane.oldest_seconds or 0)}.",
                "More comes in than goes out: start more workers, with more --processes or "
                "--threads, or look what they run for so long.",
            )
        yield from _of_failures(lane, name)


def _of_nobody(lane: Lane, name: str) -> Alert:
    if not lane.workers:
        start = f"Its jobs wait. Start a worker: manage.py runworker {lane.table}"
        return Alert(f"{name}: no living worker serves it.", start)
    said = ", ".join(f"{one.name} ({one.state})" for one in lane.workers[:MOST_NAMED])
    return Alert(
        f"{name}: no worker claims from it now: {said}.",
        "Its jobs wait. Let a worker go on (manage.py dbqueue workers --resume NAME), or start one "
        "more.",
    )


def _of_pause(lane: Lane, name: str) -> Alert:
    queue = lane.paused
    reason = f": {queue.pause_reason}" if queue and queue.pause_reason else ""
    until = pause_end(queue.paused_until) if queue else ""
    waiting = f"{lane.counts.get(Status.READY, 0):,}{'+' * (Status.READY in lane.at_least)}"
    return Alert(
        f"{name} is paused {until}{reason}. Ready jobs that wait: {waiting}.",
        "Nothing is claimed from it meanwhile. Resume it on the page of the queues.",
        is_urgent=False,
    )


def pause_end(paused_until: Any) -> str:
    """In words."""
    if not isinstance(paused_until, datetime) or is_for_good(paused_until):
        return "until somebody resumes it"
    aware = timezone.is_aware(paused_until)
    local = timezone.localtime(paused_until) if aware else paused_until
    return f"until {local:%Y-%m-%d %H:%M}"


def _of_failures(lane: Lane, name: str) -> Iterator[Alert]:
    share = lane.hour.failure_share
    if share is not None and share > SHARE and lane.hour.completed + lane.hour.failed >= FEW:
        yield Alert(
            f"{name}: {share:.0%} of the attempts of the last hour failed.",
            "Read the errors of buried and delayed jobs; retry them once the cause is gone.",
        )
