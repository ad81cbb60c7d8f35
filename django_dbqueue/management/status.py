"""``manage.py dbqueue status``: a verdict in one sentence, what is wrong, and queue by queue what
waits, runs and failed. Exit code 1 where somebody is needed now."""

import json
import sys
import threading
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

from django.db.utils import Error

from ..exceptions import first_line
from ..monitor.alerts import Alert, alerts
from ..monitor.overview import Overview, overview
from ..worker.served import parse_served
from .advice import with_advice
from .choosing import add_tables
from .colours import BOLD, CLEAR, GREEN, RED, YELLOW, is_coloured, painted
from .commands._log import printable
from .commands._text import status_json, status_text, working
from .durations import duration
from .verbs import FOUND, ProblemsFound, Verb

VERSION = 1  # of the JSON: names may be added; what changes or goes makes another one
WATCHED_SECONDS = 2.0
SECONDS_LEAST = 0.2
URGENT, NOT_URGENT, INDENT = "! ", "- ", "    "

_stop = threading.Event()  # is never set: a wait that Ctrl-C ends


def add_arguments(parser: ArgumentParser) -> None:
    add_tables(parser)
    parser.add_argument(
        "--watch",
        nargs="?",
        type=duration,
        const=WATCHED_SECONDS,
        metavar="SECONDS",
        help="again and again until Ctrl-C; default: every 2 s",
    )


def run(options: dict[str, Any]) -> str:
    """``ProblemsFound`` where an alarm is urgent, or a database cannot be asked."""
    if options["watch"] is not None:
        return watch(options)
    found = look(options)
    problems = [one.text for one in alerts(found) if one.is_urgent]
    text = as_json(found) if options["json"] else as_text(found)
    if not problems:
        return text
    said = with_advice("\n".join(problems), options["database"]) if found.problems else ""
    raise ProblemsFound(text, printable(said or "\n".join(problems)), FOUND)


def look(options: dict[str, Any]) -> Overview:
    tables = parse_served(options["tables"], options["database"])
    found = overview(list({one.place: one for one in tables}.values()))
    found.queues = [
        queue
        for queue in found.queues
        if any(
            one.place == (queue.database, queue.table) and one.means(queue.queue) for one in tables
        )
    ]
    return found


def watch(options: dict[str, Any]) -> str:
    """A screen after the other, until Ctrl-C; where there is no terminal, one below the other."""
    seconds = max(SECONDS_LEAST, options["watch"])
    with suppress(KeyboardInterrupt):
        while True:
            show(options)
            _stop.wait(seconds)
    return ""


def show(options: dict[str, Any]) -> None:
    try:
        found = look(options)
        text = as_json(found) if options["json"] else as_text(found)
    except Error as error:
        text = f"{URGENT}It cannot be asked: {first_line(error)}"
    shown = printable(text)
    if is_coloured(sys.stdout, options):
        shown = coloured(shown)
    is_terminal = sys.stdout.isatty() and not options["json"]
    sys.stdout.write((CLEAR if is_terminal else "") + shown + "\n")
    sys.stdout.flush()


def verdict(found: Overview, told: list[Alert]) -> str:
    """How it is, in one sentence."""
    urgent = sum(one.is_urgent for one in told)
    if urgent:
        return f"Somebody is needed: {urgent} problem{'s' * (urgent > 1)}."
    more = f"{len(told)} to know of" if told else "nothing is late"
    workers = working(found)
    alive = "no worker lives" if not workers else f"{workers} worker{'s' * (workers > 1)} alive"
    return f"All is well: {alive}, {more}."


def as_text(found: Overview) -> str:
    told = alerts(found)
    lines = [verdict(found, told)]
    for one in told:
        lines.append((URGENT if one.is_urgent else NOT_URGENT) + one.text)
        lines.append(INDENT + one.advice)
    return "\n".join([*lines, "", status_text(found)])


def as_json(found: Overview) -> str:
    told = alerts(found)
    content = {
        "version": VERSION,
        "verdict": verdict(found, told),
        "urgent": any(one.is_urgent for one in told),
        "alerts": [
            {"text": one.text, "advice": one.advice, "is_urgent": one.is_urgent, "kind": one.kind}
            for one in told
        ],
    }
    return json.dumps(content | status_json(found), indent=2)


def coloured(text: str) -> str:
    """What ``as_text`` says, for a person who looks."""
    first, *rest = text.split("\n")
    bad = first.startswith(("Somebody", URGENT))
    lines = [painted(first, BOLD, RED if bad else GREEN)]
    for line in rest:
        colour = {URGENT: RED, NOT_URGENT: YELLOW}.get(line[: len(URGENT)])
        is_head = line.startswith("queue table  ")
        lines.append(painted(line, colour) if colour else painted(line, BOLD) if is_head else line)
    return "\n".join(lines)


STATUS = Verb("how it is, and what waits, runs and failed, queue by queue", add_arguments, run)
