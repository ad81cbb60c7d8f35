"""Reports as aligned columns, for people."""

from collections.abc import Sequence
from typing import Any

from django.template.defaultfilters import filesizeformat

from ...diagnose.check import CheckResult
from ...lifecycle.claim_end import duration
from ...monitor.overview import SHOWN, Overview, QueueOverview, summed
from ...monitor.worker_list import ListedWorker, losses
from ...states import Status
from ._log import VISIBLE

SERVED_SHOWN_MAX = 3
UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))

ASKED = {
    "stop": "stop: it stops claiming, finishes what runs, and is gone within its shutdown timeout",
    "restart": "restart: it stops claiming, finishes what runs, and exits to be started again",
    "drain": "drain: it claims nothing more, finishes what it has, and waits for --resume",
    "resume": "go on: it claims again within seconds, unless a signal has paused it",
}


def status_text(found: Overview) -> str:
    labels = [status.label for status in SHOWN]
    head = ["queue table", "queue", *labels, "done, 1 h", "oldest", "paused"]
    lines = [[one.title, *_cells(one), "paused" if one.paused else ""] for one in in_use(found)]
    sums = [(table, summed(parts)) for (table, _), parts in spread(found)]
    lines += [[f"sum of {table}", *_cells(whole), ""] for table, whole in sums]
    text = (
        aligned([head, *lines]) if lines else "no job waits, runs or has failed in any queue table"
    )
    cut = [f"{table}: it has more queues than are shown" for table in found.cut]
    alive = f"workers alive: {working(found)}"
    lost = losses(found.workers)
    return "\n".join([text, *([lost] if lost else []), *cut, *found.all_under_way, alive])


def _cells(one: QueueOverview) -> list[str]:
    oldest = "" if one.oldest_seconds is None else duration(max(0.0, one.oldest_seconds))
    counts = [counted(one, status) for status in SHOWN]
    return [one.queue, *counts, str(one.hour.completed), oldest]


def status_json(found: Overview) -> dict[str, Any]:
    """A count whose state is in ``at_least`` may stand for more; one whose state is in
    ``counted_seconds_ago`` was counted then, and all others now."""
    sums = [
        {**_values(summed(parts)), "databases": [one.database for one in parts]}
        for _, parts in spread(found)
    ]
    queues = [{**_values(one), "database": one.database} for one in in_use(found)]
    paused = [[one.table, one.queue] for one in found.queues if one.paused]
    return {
        "queues": queues,
        "sums": sums,
        "paused": paused,
        "workers": working(found),
        "more_queues": found.cut,
        "under_way": found.all_under_way,
        "problems": found.problems,
    }


def _values(one: QueueOverview) -> dict[str, Any]:
    return {
        "table": one.table,
        "queue": one.queue,
        "counts": {status.label: one.counts.get(status, 0) for status in SHOWN},
        "at_least": [status.label for status in SHOWN if status in one.at_least],
        "counted_seconds_ago": {
            status.label: round(one.seconds_ago[status], 1)
            for status in SHOWN
            if status in one.seconds_ago
        },
        "due": one.due,
        "completed_last_hour": one.hour.completed,
        "oldest_seconds": one.oldest_seconds,
    }


def spread(found: Overview) -> list[tuple[tuple[str, str], list[QueueOverview]]]:
    """Of each queue whose table is on several databases, by table and queue, what is on each, as
    far as these could be asked."""
    parts: dict[tuple[str, str], list[QueueOverview]] = {}
    for one in in_use(found):
        if not one.is_only:
            parts.setdefault((one.table, one.queue), []).append(one)
    return sorted(parts.items())


def in_use(found: Overview) -> list[QueueOverview]:
    return [one for one in found.queues if not one.is_idle]


def working(found: Overview) -> int:
    """A reaper of its own serves nothing."""
    return sum(one.lives and bool(one.serves) for one in found.workers)


def counted(one: QueueOverview, status: Status) -> str:
    return str(one.count(status))


def workers_text(members: Sequence[ListedWorker]) -> str:
    head = ["worker", "serves", "started", "last beat", "memory", "processes", "runs", "state"]
    if not members:
        return "no workers"
    several = len({member.database for member in members}) > 1
    names = [member.name + (f" on {member.database}" if several else "") for member in members]
    rows = [
        [
            name,
            _shortened(member.serves),
            f"{age(member.started_seconds)} ago",
            f"{age(member.beat_seconds)} ago",
            filesizeformat(member.memory).replace("\xa0", " ") if member.memory else "unknown",
            str(member.pool),
            str(member.running),
            f"{member.state} ({member.reason})" if member.reason else member.state,
        ]
        for name, member in zip(names, members, strict=True)
    ]
    told = [pool_text(name, member) for name, member in zip(names, members, strict=True)]
    return "\n\n".join([aligned([head, *rows]), *filter(None, told)])


def _shortened(names: Sequence[str]) -> str:
    """A line stays readable, however many tables a worker serves; --json names all."""
    if len(names) <= SERVED_SHOWN_MAX:
        return ", ".join(names)
    return (
        f"{', '.join(names[: SERVED_SHOWN_MAX - 1])} and {len(names) - SERVED_SHOWN_MAX + 1} more"
    )


def pool_text(name: str, member: ListedWorker) -> str:
    """What a living worker has decided, the latest first."""
    pool = member.pool
    if not member.lives or not (pool.decisions or pool.queues):
        return ""
    shares = ", ".join(f"{queue} {count}" for queue, count in pool.queues.items())
    lines = [f"    processes by queue: {shares}"] if shares else []
    lines += [f"    {age(one.seconds)} ago: {one.text}" for one in pool.decisions]
    return "\n".join([f"{name}:", *lines])


def asked_text(members: Sequence[ListedWorker], asked: str) -> str:
    names = dict.fromkeys(member.name for member in members)
    return "\n".join(f"{name} was asked to {ASKED[asked]}" for name in names)


def check_text(examined: CheckResult) -> str:
    if examined.is_clean:
        return f"{examined.tables} queue tables: nothing found"
    several = len({one.database for one in examined.findings}) > 1
    lines = []
    for one in examined.findings:
        place = f"{one.table} {one.id}" + (f" on {one.database}" if several else "")
        lines += [f"{place} {one.what}", f"    {one.advice}"]
    lines += [f"{more}: there are more; --rows shows them" for more in examined.more]
    for left in examined.unchecked:
        place = f"{left.table} on {left.database}" if left.table else f"database {left.database}"
        lines.append(f"{place} was not checked: {left.why}")
    return "\n".join(lines)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    rows = [[cell.translate(VISIBLE) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def age(seconds: float) -> str:
    """The largest unit that it fills, in whole numbers."""
    for unit, size in UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
