"""How ``dbqueue top`` looks; rich knows colours, NO_COLOR, and how wide the terminal is."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..monitor.failures import FailureGroup
from ..monitor.overview import SHOWN, QueueOverview
from ..monitor.verdict import Level
from ..monitor.worker_list import ListedWorker, losses
from ..states import Status
from ..texts.wording import ago, duration, number, state_word, worker_state_word
from .commands._log import printable
from .commands._text import counted
from .failures import here, what
from .top_model import HELP, Line, Top

RUNNING_SHOWN_MAX = 5
COLOURS = {Level.ACT: "red", Level.LOOK: "yellow", Level.OK: "green"}
ROWS_LEAST = 2  # of each table
OTHER_ROWS = 14 + RUNNING_SHOWN_MAX  # heads, verdict, what runs, keys


@contextmanager
def shown_live() -> Iterator[Callable[[Top], None]]:
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda top: live.update(screen(top, console.height), refresh=True)


def screen(top: Top, height: int) -> Group:
    lines = [top.queues, top.failures, top.workers]
    rows = shares([len(one) for one in lines], max(0, height - OTHER_ROWS))
    selected = top.line
    makers = (queue_table, failure_table, worker_table)
    tables = [
        make(window(some, selected, count), selected)
        for make, some, count in zip(makers, lines, rows, strict=True)
    ]
    if lost := losses(top.found.workers):
        tables[0].title = f"{tables[0].title}. {lost}"
    return Group(head(top), *tables, running(top), foot(top))


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """How many rows each table gets: as many as it has, or its part of what there is."""
    given = [min(one, ROWS_LEAST) for one in wanted]
    while sum(given) < room and given != list(wanted):
        for place, one in enumerate(wanted):
            if given[place] < one and sum(given) < room:
                given[place] += 1
    return given


def window(lines: Sequence[Line], selected: Line | None, count: int) -> Sequence[Line]:
    """So many lines, the selected one among them."""
    place = next((i for i, one in enumerate(lines) if one == selected), 0)
    first = max(0, min(place - count // 2, len(lines) - count))
    return lines[first : first + count]


def plain(text: str, style: str = "") -> Text:
    """Whatever is in it does nothing to the terminal."""
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def head(top: Top) -> Text:
    if top.problem:
        return plain(top.problem, "bold red")
    judged = top.verdict
    text = plain(judged.sentence, f"bold {COLOURS[judged.level]}")
    for one in [*judged.problems[1:], *judged.pauses][:2]:
        text.append_text(plain(f"\n{one.text}", "red" if one.is_urgent else "yellow"))
    return text


def foot(top: Top) -> Text:
    if top.question is not None:
        return plain(f"{top.question.text} [y/N]", "bold reverse")
    return plain(top.said or str(HELP), "bold" if top.said else "dim")


def new_table(title: str, first: str, numbers: Sequence[str], last: str = "") -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, expand=True)
    table.add_column(first, ratio=2, no_wrap=True, overflow="ellipsis")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    if last:
        table.add_column(last, ratio=3, no_wrap=True, overflow="ellipsis")
    return table


def add(table: Table, line: Line, selected: Line | None, *cells: str) -> None:
    is_selected = selected is not None and line.key == selected.key
    mark = "> " if is_selected else "  "
    texts = [plain(mark + cells[0]), *map(plain, cells[1:])]
    table.add_row(*texts, style="reverse" if is_selected else None)


def queue_table(lines: Sequence[Line], selected: Line | None) -> Table:
    names = [state_word(str(status.label)) for status in SHOWN]
    more = [_("done, 1 h"), _("oldest"), _("workers")]
    table = new_table(_("Queues"), _("queue"), [*names, *more], _("state"))
    for line in lines:
        one = cast(QueueOverview, line.item)
        oldest = "" if one.oldest_seconds is None else duration(max(0.0, one.oldest_seconds))
        counts = [counted(one, Status(status)) for status in SHOWN]
        paused = pgettext("a queue", "paused")
        state = f"{paused} {one.paused.pause_reason}" if one.paused else ""
        name, workers = f"{one.title}:{one.queue}", str(len(one.workers))
        cells = [number(one.hour.completed), oldest, workers, state]
        add(table, line, selected, name, *counts, *cells)
    return table


def failure_table(lines: Sequence[Line], selected: Line | None) -> Table:
    numbers = [_("1 h"), _("24 h"), _("failed"), _("retrying")]
    what_failed = pgettext("column of a list", "what")
    table = new_table(_("Failures"), _("table"), numbers, what_failed)
    for line in lines:
        one = cast(FailureGroup, line.item)
        counts = [number(one.hour), number(one.day), *here(one.here)]
        add(table, line, selected, one.served.title, *counts, what(one))
    return table


def worker_table(lines: Sequence[Line], selected: Line | None) -> Table:
    heads = [_("beat"), _("runs"), _("jobs/min")]
    table = new_table(_("Workers"), _("worker"), heads, _("state"))
    for line in lines:
        one = cast(ListedWorker, line.item)
        beat = ago(max(0.0, one.beat_seconds))
        numbers = [beat, f"{one.running}", number(one.jobs_per_minute)]
        add(table, line, selected, one.name, *numbers, worker_state_word(one.state))
    return table


def running(top: Top) -> Table:
    head = pgettext("for how long", "for")
    table = new_table(_("Running, the longest first"), _("job"), [head], _("worker"))
    for one in top.running[:RUNNING_SHOWN_MAX]:
        ran = "" if one.seconds is None else duration(max(0.0, one.seconds))
        table.add_row(plain(f"  {one.job}"), plain(ran), plain(one.worker.name))
    return table
