"""What is wrong with the queues, and what a person does about it."""

from collections.abc import Iterator
from dataclasses import dataclass

from .conf import conf
from .lifecycle.verdict import duration
from .overview import Lane, Overview
from .roster import Member
from .states import Status

FEW = 20  # attempts of which no share is told
SHARE = 0.5


@dataclass(frozen=True)
class Alarm:
    """``is_urgent``: jobs are late or harmed by it now."""

    text: str
    advice: str
    is_urgent: bool = True


def alarms(found: Overview) -> list[Alarm]:
    """The urgent ones first."""
    all_of_them = [*_of_databases(found), *_of_workers(found.members), *_of_lanes(found.lanes)]
    return sorted(all_of_them, key=lambda alarm: not alarm.is_urgent)


def _of_databases(found: Overview) -> Iterator[Alarm]:
    for name, why in found.problems.items():
        yield Alarm(f"{name} cannot be asked: {why}", "The rest of the page goes on without it.")


def _of_workers(members: list[Member]) -> Iterator[Alarm]:
    for member in members:
        if member.state == "silent":
            yield Alarm(
                f"Worker {member.name} has not beaten for {duration(member.beat_seconds)}.",
                "It counts as dead: others take over its jobs within seconds. Where no worker "
                "lives, start one: manage.py runworker.",
            )
        elif member.lives and member.trouble:
            yield Alarm(
                f"Worker {member.name}: {member.trouble}.",
                "Look at the database's own log: a full disk, a lock that somebody holds, or a "
                "server that is read-only.",
            )


def _of_lanes(lanes: list[Lane]) -> Iterator[Alarm]:
    for lane in lanes:
        name = f"{lane.table}, queue {lane.queue}"
        if lane.paused is not None:
            yield _of_pause(lane, name)
            continue
        if lane.waits and not any(one.state in {"alive", "paused"} for one in lane.workers):
            yield Alarm(
                f"{name}: no living worker serves it.",
                f"Its jobs wait. Start a worker: manage.py runworker {lane.table}",
            )
        elif (lane.oldest_seconds or 0) > conf["LATE_AFTER"]:
            yield Alarm(
                f"{name}: the oldest ready job waits for {duration(lane.oldest_seconds or 0)}.",
                "More comes in than goes out: start more workers, with more --processes or "
                "--threads, or look what they run for so long.",
            )
        yield from _of_failures(lane, name)


def _of_pause(lane: Lane, name: str) -> Alarm:
    queue = lane.paused
    reason = f": {queue.pause_reason}" if queue and queue.pause_reason else ""
    waiting = lane.counts.get(Status.READY, 0)
    return Alarm(
        f"{name} is paused{reason}. {waiting:,} ready jobs wait.",
        "Nothing is claimed from it until then, or until somebody resumes it.",
        is_urgent=False,
    )


def _of_failures(lane: Lane, name: str) -> Iterator[Alarm]:
    share = lane.hour.failure_share
    if share is not None and share > SHARE and lane.hour.completed + lane.hour.failed >= FEW:
        yield Alarm(
            f"{name}: {share:.0%} of the attempts of the last hour failed.",
            "Read the errors of buried and delayed jobs; retry them once the cause is gone.",
        )
