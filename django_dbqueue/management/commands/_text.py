"""Reports as aligned columns, for people."""

from collections.abc import Sequence
from typing import Any
from unicodedata import east_asian_width

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from ...diagnose.check import CheckResult
from ...monitor.many_queues import OtherQueues
from ...monitor.overview import SHOWN, Overview, QueueOverview, summed
from ...monitor.worker_list import ListedWorker, losses
from ...monitor.worker_pool import WorkerPool
from ...states import Status
from ...texts.wording import UNITS, duration, number, state_word, worker_state_word
from ._log import VISIBLE

SERVED_SHOWN_MAX = 3
WIDE = {"W", "F"}
SIZES = (("d", 86_400), ("h", 3_600), ("min", 60))

ASKED = {
    "stop": gettext_lazy(
        "%(name)s was asked to stop: it stops claiming, finishes what runs, and is gone within its "
        "shutdown timeout"
    ),
    "restart": gettext_lazy(
        "%(name)s was asked to restart: it stops claiming, finishes what runs, and exits to be "
        "started again"
    ),
    "drain": gettext_lazy(
        "%(name)s was asked to drain: it claims nothing more, finishes what it has, and waits for "
        "--resume"
    ),
    "resume": gettext_lazy(
        "%(name)s was asked to go on: it claims again within seconds, unless a signal has paused it"
    ),
}


def status_text(found: Overview) -> str:
    labels, paused = [state_word(str(one.label)) for one in SHOWN], pgettext("a queue", "paused")
    head = [_("queue table"), _("queue"), *labels, _("done, 1 h"), _("oldest"), paused]
    lines = [[one.title, *_cells(one), paused if one.paused else ""] for one in in_use(found)]
    sums = [(table, summed(parts)) for (table, _), parts in spread(found)]
    lines += [_cells_of_others(one) for one in found.others]
    lines += [[_("sum of %(table)s") % {"table": name}, *_cells(all_), ""] for name, all_ in sums]
    text = _("no job waits, runs or has failed in any queue table")
    if lines:
        text = aligned([head, *lines])
    more = _("%(table)s: it has more queues than are shown")
    cut = [more % {"table": table} for table in found.cut]
    alive = _("workers alive: %(number)s") % {"number": working(found)}
    lost = losses(found.workers)
    return "\n".join([text, *([lost] if lost else []), *cut, *found.all_under_way, alive])


def _cells(one: QueueOverview) -> list[str]:
    oldest = "" if one.oldest_seconds is None else duration(max(0.0, one.oldest_seconds))
    counts = [counted(one, status) for status in SHOWN]
    return [one.queue, *counts, str(one.hour.completed), oldest]


def _cells_of_others(one: OtherQueues) -> list[str]:
    oldest = "" if one.oldest_seconds is None else duration(max(0.0, one.oldest_seconds))
    counts = [str(one.counts[status]) for status in SHOWN]
    paused = pgettext("a queue", "paused") if one.is_paused else ""
    return [one.title, one.named, *counts, str(one.completed), oldest, paused]


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
        "other_queues": [one.as_dict() for one in found.others],
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
        "due_at_least": one.due_at_least,
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
    head = [_("worker"), _("serves"), _("started"), _("last beat"), _("memory"), _("processes")]
    head += [_("runs"), _("state")]
    if not members:
        return _("no workers")
    several = len({member.database for member in members}) > 1
    names = [on(member.name, member.database) if several else member.name for member in members]
    rows = [
        [
            name,
            _shortened(member.serves),
            ago(member.started_seconds),
            ago(member.beat_seconds),
            filesizeformat(member.memory).replace("\xa0", " ") if member.memory else _("unknown"),
            _processes(member.pool),
            str(member.running),
            worker_state_word(member.state) + (f" ({member.reason})" if member.reason else ""),
        ]
        for name, member in zip(names, members, strict=True)
    ]
    told = [pool_text(name, member) for name, member in zip(names, members, strict=True)]
    return "\n\n".join([aligned([head, *rows]), *filter(None, told)])


def _shortened(names: Sequence[str]) -> str:
    """A line stays readable, however many tables a worker serves; --json names all."""
    if len(names) <= SERVED_SHOWN_MAX:
        return ", ".join(names)
    more = len(names) - SERVED_SHOWN_MAX + 1
    text = ngettext("%(names)s and %(number)s more", "%(names)s and %(number)s more", more)
    return text % {"names": ", ".join(names[: SERVED_SHOWN_MAX - 1]), "number": number(more)}


def _processes(pool: WorkerPool) -> str:
    if pool.least == pool.most:
        return str(pool.processes)
    numbers = {"number": pool.processes, "least": pool.least, "most": pool.most}
    return _("%(number)s of %(least)s-%(most)s") % numbers


def pool_text(name: str, member: ListedWorker) -> str:
    """What a living worker has decided, the latest first."""
    pool = member.pool
    if not member.lives or not (pool.decisions or pool.queues):
        return ""
    shares = ", ".join(f"{queue} {count}" for queue, count in pool.queues.items())
    told = _("processes by queue: %(queues)s") % {"queues": shares}
    lines = [f"    {told}"] if shares else []
    lines += [f"    {ago(one.seconds)}: {one.text}" for one in pool.decisions]
    return "\n".join([f"{name}:", *lines])


def asked_text(members: Sequence[ListedWorker], asked: str) -> str:
    names = dict.fromkeys(member.name for member in members)
    return "\n".join(ASKED[asked] % {"name": name} for name in names)


def check_text(examined: CheckResult) -> str:
    if examined.is_clean:
        text = ngettext(
            "%(number)s queue tables: nothing found",
            "%(number)s queue tables: nothing found",
            examined.tables,
        )
        return text % {"number": examined.tables}
    several = len({one.database for one in examined.findings}) > 1
    lines = []
    for one in examined.findings:
        row = f"{one.table} {one.id}"
        place = on(row, one.database) if several else row
        said = _("%(row)s %(what)s") % {"row": place, "what": one.what}
        lines += [said, f"    {one.advice}"]
    more = _("%(what)s: there are more; --rows shows them")
    lines += [more % {"what": what} for what in examined.more]
    for left in examined.unchecked:
        place = _("database %(name)s") % {"name": left.database}
        if left.table:
            place = on(left.table, left.database)
        said = _("%(place)s was not checked: %(why)s")
        lines.append(said % {"place": place, "why": left.why})
    return "\n".join(lines)


def on(what: str, alias: str) -> str:
    """With its database."""
    return _("%(what)s on %(database)s") % {"what": what, "database": alias}


def aligned(rows: Sequence[Sequence[str]]) -> str:
    rows = [[cell.translate(VISIBLE) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def _width(text: str) -> int:
    """In cells of a terminal: a Japanese character takes two."""
    return sum(2 if east_asian_width(one) in WIDE else 1 for one in text)


def ago(seconds: float) -> str:
    """By the largest unit that it fills, in whole numbers."""
    unit, size = next((one for one in SIZES if seconds >= one[1]), ("s", 1))
    whole = f"{seconds // size:.0f}" if size > 1 else f"{max(0, seconds):.0f}"
    return _("%(time)s ago") % {"time": UNITS[unit] % {"number": whole}}
