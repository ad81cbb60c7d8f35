"""Reports as aligned columns, for people."""

from collections.abc import Sequence

from django.template.defaultfilters import filesizeformat

from ...report import Report
from ...roster import Member
from ...states import Status
from ._log import VISIBLE

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))

ASKED = {
    "stop": "stop: it stops claiming, finishes what runs, and is gone within its shutdown timeout",
    "drain": "drain: it claims nothing more, finishes what it has, and waits for --resume",
    "resume": "go on: it claims again within seconds, unless a signal has paused it",
}


def status_text(report: Report) -> str:
    head = ["queue table", "queue", *Status.labels, "oldest", "paused"]
    lines = [
        [
            queue.table,
            queue.queue,
            *(capped(queue.counts[label], report.counted_up_to) for label in Status.labels),
            "" if queue.oldest_seconds is None else f"{queue.oldest_seconds:.0f} s",
            "paused" if [queue.table, queue.queue] in report.paused else "",
        ]
        for queue in report.queues
    ]
    text = aligned([head, *lines]) if lines else "no jobs in any queue table"
    return f"{text}\nworkers alive: {report.workers}"


def workers_text(members: Sequence[Member]) -> str:
    head = ["worker", "serves", "started", "last beat", "memory", "runs", "state"]
    if not members:
        return "no workers"
    several = len({member.database for member in members}) > 1
    return aligned(
        [
            head,
            *(
                [
                    member.name + (f" on {member.database}" if several else ""),
                    ", ".join(member.serves),
                    f"{age(member.started_seconds)} ago",
                    f"{age(member.beat_seconds)} ago",
                    filesizeformat(member.memory).replace("\xa0", " "),
                    str(member.running),
                    f"{member.state} ({member.reason})" if member.reason else member.state,
                ]
                for member in members
            ),
        ]
    )


def asked_text(members: Sequence[Member], asked: str) -> str:
    names = dict.fromkeys(member.name for member in members)
    return "\n".join(f"{name} was asked to {ASKED[asked]}" for name in names)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    rows = [[cell.translate(VISIBLE) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def capped(count: int, cap: int) -> str:
    return f"{count}+" if count >= cap else str(count)


def age(seconds: float) -> str:
    """The largest unit that it fills, in whole numbers."""
    for unit, size in UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
