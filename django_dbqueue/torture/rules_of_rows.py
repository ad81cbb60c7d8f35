"""Invariants that the rows show which are left."""

from collections.abc import Iterable, Iterator
from typing import Any

from .faults import FOREVER
from .history import Event
from .job_history import Enqueued, JobHistory, Run
from .rules_of_runs import Check
from .verdicts import Row, Violation

KEPT_ERRORS = 10
PARKED = {"done", "buried"}


def lost(trial: Check) -> Iterator[Violation]:
    marks = {row["mark"] for row in trial.book.rows}
    for mark, enqueued in trial.book.enqueued.items():
        if enqueued.kind != "ok" or mark in marks:
            continue
        story = trial.book.story(enqueued.key)
        ended = story.has("completed") or story.has("expired")
        if not story.hands("cancel") and (trial.settings.keeps_rows or not ended):
            yield Violation(f"job {enqueued.key} ({mark}) is gone", [enqueued.invoked])


def phantoms(trial: Check) -> Iterator[Violation]:
    seen: dict[str, Any] = {}
    for mark, key, event in _marks(trial):
        enqueued = trial.book.enqueued.get(mark)
        if enqueued is None or enqueued.kind == "fail":
            yield Violation(f"job {key} ({mark}) was never enqueued", [event])
        elif key != seen.setdefault(mark, key if enqueued.key is None else enqueued.key):
            yield Violation(f"{mark} was enqueued as {seen[mark]}, and is {key}, too", [event])


def _marks(trial: Check) -> Iterator[tuple[str, Any, Event]]:
    for run in trial.book.runs():
        yield run.start["mark"], run.start["key"], run.start
    for row in trial.book.rows:
        yield row["mark"], row["key"], row


def attempts(trial: Check) -> Iterator[Violation]:
    for story in trial.stories:
        for number, run in enumerate(story.runs):
            low, high = _charges(trial, story, story.runs[:number], run)
            yield from _counted(story, run.start["attempt"] - 1, low, high, run.start)
            if run.start["attempt"] > trial.settings.max_attempts:
                yield Violation(f"job {story.key}: more attempts than allowed", [run.start])
        yield from _attempts_of_row(trial, story)


def _attempts_of_row(trial: Check, story: JobHistory) -> Iterator[Violation]:
    row = story.row
    if row is None:
        return
    own = 1 if row["status"] in {"done", "claimed"} and not story.has("expired") else 0
    owner = row["owner"] if own else None
    others = [run for run in story.runs if run.owner != owner]
    low, high = _charges(trial, story, others, None, owner)
    yield from _counted(story, row["attempts"] - own, low, high, row)
    if row["attempts"] > trial.settings.max_attempts:
        yield Violation(f"job {story.key}: more attempts than allowed", [row])


def _charges(
    trial: Check, story: JobHistory, before: list[Run], run: Run | None, owner: str | None = None
) -> tuple[int, int]:
    """The fewest and the most attempts that others had used up when a run began, or in the end. A
    kick forgives all, and an outcome may be accepted without being noted, or be noted late."""
    now = run.t if run else FOREVER
    mine = run.owner if run else owner
    charging = [e for e in story.accepted if e["op"] in {"failed", "reaped"} and e["owner"] != mine]
    known = {e["owner"] for e in charging if e["t"] <= now + trial.late}
    sure = {e["owner"] for e in charging if e["op"] == "failed" and e["t"] < now}
    spared = {e["owner"] for e in story.accepted if e["op"] == "completed" or e.get("charged")}
    owners = {one.owner for one in before}
    fewest = 0 if story.hands("kick") else len(sure & owners)
    return fewest, len((owners | known) - spared) + len(story.hands("bury"))


def _counted(
    story: JobHistory, used: int, low: int, high: int, event: Event
) -> Iterator[Violation]:
    if not low <= used <= high:
        words = f"job {story.key}: {used} attempts used before, where {low} to {high} are known"
        yield Violation(words, [event])


def crashes(trial: Check) -> Iterator[Violation]:
    for story in trial.stories:
        row = story.row
        if row is None:
            continue
        charged = [e for e in story.accepted if e["op"] == "reaped" and e.get("charged")]
        low = 0 if story.hands("kick") else len(charged)
        high = len(charged)
        if row["crashes"] > high:
            high += _unnoted_crashes(trial, story)
        if not low <= row["crashes"] <= high:
            words = f"job {story.key}: {row['crashes']} crashes, where {low} to {high} are known"
            yield Violation(words, [row])


def _unnoted_crashes(trial: Check, story: JobHistory) -> int:
    """Runs that were cut off, and times at which anything claimed may have been."""
    book, faults = trial.book, trial.faults
    end = book.events[-1]["t"] if book.events else 0
    cut = [
        run
        for run in story.runs
        if not story.ended(run.owner) and faults.that_harmed(run, run.t, end)
    ]
    enqueued = book.enqueue_of(story)
    since = enqueued.invoked["t"] if enqueued else 0
    return len(cut) + len(faults.of_supervisors(since, end))


def effects(trial: Check, written: Iterable[Row]) -> Iterator[Violation]:
    counts: dict[str, int] = {}
    for effect in written:
        counts[effect["mark"]] = counts.get(effect["mark"], 0) + 1
    for mark in counts.keys() - trial.book.enqueued.keys():
        yield Violation(f"an effect of {mark}, which was never enqueued", [])
    for row in trial.book.rows:
        story, enqueued = trial.book.story(row["key"]), trial.book.enqueued.get(row["mark"])
        if enqueued and not story.has("expired"):
            yield from _effect(story, row, enqueued, counts.get(row["mark"], 0))


def _effect(story: JobHistory, row: Row, enqueued: Enqueued, count: int) -> Iterator[Violation]:
    is_done = row["status"] == "done"
    if enqueued.invoked.get("exactly_once"):
        if count != is_done:
            yield Violation(f"job {row['key']} is {row['status']}, and had {count} effects", [row])
        return
    run = story.run_of(row["owner"]) if row["owner"] else None
    if is_done and not (run and run.effects):
        yield Violation(f"job {row['key']} is done, without an effect by {row['owner']}", [row])


def unfinished(trial: Check) -> Iterator[Violation]:
    for row in trial.book.rows if trial.settings.drained else ():
        moves = row["status"] == "claimed" and not _is_overdue(trial, row)
        if row["place"] == "live" and (moves or row["status"] in {"ready", "delayed"}):
            yield Violation(f"job {row['key']} is still {row['status']}", [row])


def misfits(trial: Check) -> Iterator[Violation]:
    for row in trial.book.rows:
        status = row["status"]
        is_claimed = status == "claimed" and row["place"] == "live"
        if is_claimed and _is_overdue(trial, row):
            yield Violation(f"job {row['key']} is left claimed, its time being over", [row])
        if is_claimed and row["owner"] is None:
            yield Violation(f"job {row['key']} is claimed by nobody", [row])
        if row["finished"] != (status in PARKED or row["place"] == "archive"):
            yield Violation(f"job {row['key']} is {status}, finished: {row['finished']}", [row])


def _is_overdue(trial: Check, row: Row) -> bool:
    past = row["retry_at_past_seconds"]
    return past is not None and past > 2 * trial.settings.reap_interval + trial.settings.late


def two_places(trial: Check) -> Iterator[Violation]:
    for (key,), rows in trial.book.rows_by("key").items():
        if len(rows) > 1:
            yield Violation(f"job {key} is in {len(rows)} places", rows)


def twins(trial: Check) -> Iterator[Violation]:
    for (place, queue, key), rows in trial.book.rows_by("place", "queue", "dedup_key").items():
        if place == "live" and key is not None and len(rows) > 1:
            yield Violation(f"{len(rows)} jobs of {queue} have the dedup_key {key}", rows)


def undone(trial: Check) -> Iterator[Violation]:
    """What was completed stays so, by whoever completed it."""
    for row in trial.book.rows:
        for event in trial.book.story(row["key"]).accepted:
            if event["op"] != "completed":
                continue
            if row["status"] != "done" or row["owner"] not in {event["owner"], None}:
                words = f"job {row['key']} was completed by {event['owner']}, and is not"
                yield Violation(words, [event, row])


def causeless_burials(trial: Check) -> Iterator[Violation]:
    most = trial.settings
    for row in trial.book.rows:
        if row["status"] != "buried" or trial.book.story(row["key"]).hands("bury"):
            continue
        used_up = row["attempts"] >= most.max_attempts or row["crashes"] >= most.max_crashes
        if not used_up and _last_exception(row) != "Bury":
            yield Violation(f"job {row['key']} is buried, and nothing says why", [row])


def _last_exception(row: Row) -> Any:
    last = row["errors"][-1] if row["errors"] else None
    return last.get("exception") if isinstance(last, dict) else None


def unrecorded(trial: Check) -> Iterator[Violation]:
    """Each failure has its entry, as long as there is room for all."""
    for row in trial.book.rows:
        if len(row["errors"]) >= KEPT_ERRORS:
            continue
        told = {entry.get("owner") for entry in row["errors"] if isinstance(entry, dict)}
        for event in trial.book.story(row["key"]).accepted:
            if (event["op"] == "failed" or event.get("charged")) and event["owner"] not in told:
                yield Violation(f"job {row['key']}: a failure left no trace", [event, row])
