"""Invariants that the rows show which are left."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .faults import FOREVER
from .history import Event
from .job_history import JobHistory, Run
from .rules_of_runs import Check
from .verdicts import Row, Violation

ERRORS_MAX = 10
PARKED = {"done", "buried"}


def lost(check: Check) -> Iterator[Violation]:
    marks = {row["mark"] for row in check.index.rows}
    for mark, enqueued in check.index.enqueued.items():
        if enqueued.kind != "ok" or mark in marks:
            continue
        job = check.index.job(enqueued.key)
        ended = job.has("completed") or job.has("expired")
        if not job.hands("cancel") and (check.settings.keeps_rows or not ended):
            yield Violation(f"job {enqueued.key} ({mark}) is gone", [enqueued.invoked])


def phantoms(check: Check) -> Iterator[Violation]:
    seen: dict[str, Any] = {}
    events = [*(run.start for run in check.index.runs()), *check.index.rows]
    for event in events:
        mark, key = event["mark"], event["key"]
        enqueued = check.index.enqueued.get(mark)
        if enqueued is None or enqueued.kind == "fail":
            yield Violation(f"job {key} ({mark}) was never enqueued", [event])
        elif key != seen.setdefault(mark, key if enqueued.key is None else enqueued.key):
            yield Violation(f"{mark} was enqueued as {seen[mark]}, and is {key}, too", [event])


def attempts(check: Check) -> Iterator[Violation]:
    for job in check.jobs:
        for number, run in enumerate(job.runs):
            low, high = _charges(check, job, job.runs[:number], run)
            yield from _counted(job, run.start["attempt"] - 1, low, high, run.start)
            if run.start["attempt"] > check.settings.max_attempts:
                yield Violation(f"job {job.key}: more attempts than allowed", [run.start])
        yield from _attempts_of_row(check, job)


def _attempts_of_row(check: Check, job: JobHistory) -> Iterator[Violation]:
    row = job.row
    if row is None:
        return
    own = 1 if row["status"] in {"done", "claimed"} and not job.has("expired") else 0
    owner = row["owner"] if own else None
    others = [run for run in job.runs if run.owner != owner]
    low, high = _charges(check, job, others, None, owner)
    yield from _counted(job, row["attempts"] - own, low, high, row)
    if row["attempts"] > check.settings.max_attempts:
        yield Violation(f"job {job.key}: more attempts than allowed", [row])


def _charges(
    check: Check, job: JobHistory, before: list[Run], run: Run | None, owner: str | None = None
) -> tuple[int, int]:
    """The fewest and the most attempts that others had used up when a run began, or in the end. A
    kick forgives all, and an outcome may be accepted without being noted, or be noted late."""
    now = run.t if run else FOREVER
    mine = run.owner if run else owner
    charging = [e for e in job.accepted if e["op"] in {"failed", "reaped"} and e["owner"] != mine]
    known = {e["owner"] for e in charging if e["t"] <= now + check.late}
    sure = {e["owner"] for e in charging if e["op"] == "failed" and e["t"] < now}
    spared = {e["owner"] for e in job.accepted if e["op"] == "completed" or e.get("charged")}
    owners = {one.owner for one in before}
    fewest = 0 if job.hands("kick") else len(sure & owners)
    return fewest, len((owners | known) - spared) + len(job.hands("bury"))


def _counted(job: JobHistory, used: int, low: int, high: int, event: Event) -> Iterator[Violation]:
    if not low <= used <= high:
        words = f"job {job.key}: {used} attempts used before, where {low} to {high} are known"
        yield Violation(words, [event])


def crashes(check: Check) -> Iterator[Violation]:
    for job in check.jobs:
        row = job.row
        if row is None:
            continue
        charged = [e for e in job.accepted if e["op"] == "reaped" and e.get("charged")]
        low = 0 if job.hands("kick") else len(charged)
        high = len(charged)
        if row["crashes"] > high:
            high += _unnoted_crashes(check, job)
        if not low <= row["crashes"] <= high:
            words = f"job {job.key}: {row['crashes']} crashes, where {low} to {high} are known"
            yield Violation(words, [row])


def _unnoted_crashes(check: Check, job: JobHistory) -> int:
    """Runs that were cut off, and times at which anything claimed may have been."""
    index, faults = check.index, check.faults
    end = index.events[-1]["t"] if index.events else 0
    cut = [
        run for run in job.runs if not job.ended(run.owner) and faults.that_harmed(run, run.t, end)
    ]
    enqueued = index.enqueue_of(job)
    since = enqueued.invoked["t"] if enqueued else 0
    return len(cut) + len(faults.of_supervisors(since, end))


def effects(check: Check, written: Iterable[Row]) -> Iterator[Violation]:
    counts = Counter(effect["mark"] for effect in written)
    for mark in counts.keys() - check.index.enqueued.keys():
        yield Violation(f"an effect of {mark}, which was never enqueued", [])
    for row in check.index.rows:
        job, enqueued = check.index.job(row["key"]), check.index.enqueued.get(row["mark"])
        if not enqueued or job.has("expired"):
            continue
        is_done, count = row["status"] == "done", counts[row["mark"]]
        run = job.run_of(row["owner"]) if row["owner"] else None
        if enqueued.invoked.get("exactly_once"):
            if count != is_done:
                words = f"job {row['key']} is {row['status']}, and had {count} effects"
                yield Violation(words, [row])
        elif is_done and not (run and run.effects):
            yield Violation(f"job {row['key']} is done, without an effect by {row['owner']}", [row])


def unfinished(check: Check) -> Iterator[Violation]:
    for row in check.index.rows if check.settings.drained else ():
        moves = row["status"] == "claimed" and not _is_overdue(check, row)
        if row["place"] == "live" and (moves or row["status"] in {"ready", "delayed"}):
            yield Violation(f"job {row['key']} is still {row['status']}", [row])


def misfits(check: Check) -> Iterator[Violation]:
    for row in check.index.rows:
        status = row["status"]
        is_claimed = status == "claimed" and row["place"] == "live"
        if is_claimed and _is_overdue(check, row):
            yield Violation(f"job {row['key']} is left claimed, its time being over", [row])
        if is_claimed and row["owner"] is None:
            yield Violation(f"job {row['key']} is claimed by nobody", [row])
        if row["finished"] != (status in PARKED or row["place"] == "archive"):
            yield Violation(f"job {row['key']} is {status}, finished: {row['finished']}", [row])


def _is_overdue(check: Check, row: Row) -> bool:
    past = row["retry_at_past_seconds"]
    return past is not None and past > 2 * check.settings.reap_interval + check.settings.late


def two_places(check: Check) -> Iterator[Violation]:
    for (key,), rows in check.index.rows_by("key").items():
        if len(rows) > 1:
            yield Violation(f"job {key} is in {len(rows)} places", rows)


def twins(check: Check) -> Iterator[Violation]:
    for (place, queue, key), rows in check.index.rows_by("place", "queue", "dedup_key").items():
        if place == "live" and key is not None and len(rows) > 1:
            yield Violation(f"{len(rows)} jobs of {queue} have the dedup_key {key}", rows)


def undone(check: Check) -> Iterator[Violation]:
    """What was completed stays so, with the owner that completed it."""
    for row in check.index.rows:
        for event in check.index.job(row["key"]).accepted:
            if event["op"] != "completed":
                continue
            if row["status"] != "done" or row["owner"] not in {event["owner"], None}:
                words = f"job {row['key']} was completed by {event['owner']}, and is not"
                yield Violation(words, [event, row])


def causeless_burials(check: Check) -> Iterator[Violation]:
    most = check.settings
    for row in check.index.rows:
        if row["status"] != "buried" or check.index.job(row["key"]).hands("bury"):
            continue
        last = row["errors"][-1] if row["errors"] else None
        asked_for = isinstance(last, dict) and last.get("exception") == "Bury"
        used_up = row["attempts"] >= most.max_attempts or row["crashes"] >= most.max_crashes
        if not used_up and not asked_for:
            yield Violation(f"job {row['key']} is buried, and nothing says why", [row])


def unrecorded(check: Check) -> Iterator[Violation]:
    """Each failure has its entry, as long as there is room for all."""
    for row in check.index.rows:
        if len(row["errors"]) >= ERRORS_MAX:
            continue
        told = {entry.get("owner") for entry in row["errors"] if isinstance(entry, dict)}
        for event in check.index.job(row["key"]).accepted:
            if (event["op"] == "failed" or event.get("charged")) and event["owner"] not in told:
                yield Violation(f"job {row['key']}: a failure left no trace", [event, row])
