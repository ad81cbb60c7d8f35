"""Invariants that the history shows: who ran what when, and what was accepted from whom."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from .faults import FOREVER, Faults
from .history import Event
from .job_history import NS, HistoryIndex, JobHistory, Run
from .repeats import Repeats
from .verdicts import Settings, Violation

KILL_DELAY_NS = NS // 2  # a kill may be noted before it has its effect
TERMINAL = {"completed", "expired"}
CLOSING = {"completed", "failed", "expired", "reaped"}


class Check:
    """A history with all that is needed to judge it."""

    def __init__(self, index: HistoryIndex, settings: Settings) -> None:
        self.index = index
        self.settings = settings
        self.faults = Faults(index.events, settings)
        self.repeats = Repeats(index, self.faults, settings)
        self.late = int(settings.late * NS)

    @property
    def jobs(self) -> list[JobHistory]:
        return list(self.index.jobs.values())


def strays(check: Check) -> Iterator[Violation]:
    for event in check.index.strays:
        yield Violation(f"{event['op']} of what never began", [event])


def overlaps(check: Check) -> Iterator[Violation]:
    for repeat in check.repeats:
        same = repeat.first.owner == repeat.second.owner
        if repeat.cause is None and not same and repeat.is_overlap:
            words = f"job {repeat.job.key}: started while {repeat.first.owner} had it"
            yield Violation(words, [repeat.first.start, repeat.second.start])


def duplicates(check: Check) -> Iterator[Violation]:
    for repeat in check.repeats:
        same = repeat.first.owner == repeat.second.owner
        over = any(e["op"] in TERMINAL and e["t"] < repeat.second.t for e in repeat.job.accepted)
        if same or not (repeat.cause or repeat.is_overlap or over):
            words = f"job {repeat.job.key}: started again without a cause"
            yield Violation(words, [repeat.first.start, repeat.second.start])
    for run in check.index.runs():
        if len(run.effects) > 1:
            yield Violation(f"job {run.start['key']}: one run had its effect twice", run.effects)


def zombies(check: Check) -> Iterator[Violation]:
    """Of a write that is noted after the next start, only one of a run that went on until then was
    certainly made after it; but what is done is never claimed."""
    for job in check.jobs:
        by_owner: dict[str, list[Event]] = defaultdict(list)
        for event in job.accepted:
            if event["op"] in CLOSING:
                by_owner[str(event["owner"])].append(event)
        for owner, events in by_owner.items():
            if len(events) > 1:
                yield Violation(f"job {job.key}: the claim {owner} ended more than once", events)
        for first, second in job.repeats():
            if first.owner == second.owner or check.repeats.late_start(job, second):
                continue
            for event in job.ended(first.owner, "completed", "failed", "buried"):
                is_late = event["op"] == "completed" or first.is_open_at(second.t)
                if event["t"] > second.t and is_late:
                    words = f"job {job.key}: {first.owner} wrote when {second.owner} had it"
                    yield Violation(words, [first.start, second.start, event])


def dead_acts(check: Check) -> Iterator[Violation]:
    deaths: dict[int, Event] = {}
    for fault in check.faults.kills:
        for pid in fault.event["pids"]:
            deaths.setdefault(pid, fault.event)
    for event in check.index.events:
        death = deaths.get(event["pid"])
        if death is not None and event["t"] > death["t"] + KILL_DELAY_NS:
            yield Violation(f"process {event['pid']} acted after its death", [death, event])


def early_starts(check: Check) -> Iterator[Violation]:
    slack = check.settings.clock
    for job in check.jobs:
        if job.hands("kick"):
            continue
        enqueued = check.index.enqueue_of(job)
        if enqueued and job.runs:
            invoked, first = enqueued.invoked, job.runs[0]
            if first.t < invoked["t"] + (float(invoked.get("delay") or 0) - slack) * NS:
                yield Violation(f"job {job.key}: started too early", [invoked, first.start])
        for first, second in job.repeats():
            since = first.end or first.start
            for failed in () if first.is_open_at(second.t) else job.ended(first.owner, "failed"):
                if second.t < since["t"] + (float(failed.get("retry_in") or 0) - slack) * NS:
                    words = f"job {job.key}: retried too early"
                    yield Violation(words, [since, failed, second.start])


def paused_starts(check: Check) -> Iterator[Violation]:
    """By a claim of which nothing had started for so long that it was made during the pause."""
    pauses = list(_pauses(check))
    for run in check.index.runs() if pauses else ():
        enqueued = check.index.enqueued.get(run.start["mark"])
        queue = enqueued.invoked.get("queue") if enqueued else None
        first = check.index.first_starts[run.owner]
        for pause, resumed in pauses:
            since = pause["t"] + check.settings.buffered * NS
            if pause["queue"] == queue and since < first < resumed - check.late:
                yield Violation(f"queue {queue} was paused", [pause, run.start])


def _pauses(check: Check) -> Iterator[tuple[Event, int]]:
    by_queue: dict[Any, list[Event]] = defaultdict(list)
    for event in check.index.events:
        if event["op"] in {"pause", "resume"} and event["type"] == "ok":
            by_queue[event["queue"]].append(event)
    for events in by_queue.values():
        for event, after in pairwise([*events, {"t": FOREVER}]):
            if event["op"] == "pause":
                yield event, int(after["t"])


def restarts(check: Check) -> Iterator[Violation]:
    for job in check.jobs:
        for run in job.runs:
            ends = [e for e in job.accepted if e["op"] in TERMINAL and e["t"] < run.t]
            buried = [e["t"] for e in job.accepted if e["op"] == "buried" and e["t"] < run.t]
            since = buried[-1] - check.late if buried else FOREVER
            was_kicked = any(since < kick["t"] <= run.t + check.late for kick in job.hands("kick"))
            is_over = ends or (buried and not was_kicked)
            if is_over and not check.repeats.late_start(job, run):
                yield Violation(f"job {job.key}: started after its end", [*ends, run.start])


def causeless_reaps(check: Check) -> Iterator[Violation]:
    for job in check.jobs:
        for event in job.accepted:
            run = job.run_of(event.get("owner")) if event["op"] == "reaped" else None
            if run is None or event["t"] - run.t >= check.settings.time_to_run * NS:
                continue
            # A process that was frozen just before a start notes it when it is too late.
            silent = event["t"] - int(check.settings.worker_timeout * NS)
            since = run.t if run.t <= event["t"] else silent
            if not (
                check.faults.that_harmed(run, since, event["t"])
                or _shared_a_child(check, run, event)
            ):
                words = f"job {job.key}: taken from {run.owner}, which was well"
                yield Violation(words, [run.start, event])


def _shared_a_child(check: Check, run: Run, event: Event) -> bool:
    """Whether its child was stopped for another job that was over its time, which somebody else may
    have had by then."""
    begun_before = event["t"] - int(check.settings.time_to_run * NS)
    return any(
        other.pid == run.pid and other.t <= begun_before and other.is_open_at(event["t"])
        for other in check.index.runs()
    )


def causeless_crashes(check: Check) -> Iterator[Violation]:
    """A crash is charged by the supervisor that saw it, and to what had started. Between its last
    look and its death a child may just have begun one a thread."""
    excused: Counter[int] = Counter()
    for job in check.jobs:
        for event in job.accepted:
            if event["op"] != "reaped" or not event.get("charged"):
                continue
            run = job.run_of(event["owner"])
            if run and run.start["who"] == event["who"]:
                continue
            if run:
                words = f"job {job.key}: charged with a crash by {event['who']}, which saw none"
                yield Violation(words, [run.start, event])
                continue
            killed = [kill.start for kill in check.faults.kills if kill.start <= event["t"]]
            excused[killed[-1] if killed else 0] += 1
            if not killed or excused[killed[-1]] > check.settings.threads:
                yield Violation(f"job {job.key}: charged with a crash, but never ran", [event])
