"""``manage.py dbqueue status``: a verdict in one sentence, what is wrong, and queue by queue what
waits, runs and failed. Exit code 1 where somebody is needed now."""

import json
import sys
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

from django.db.utils import Error
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..exceptions import first_line
from ..monitor.overview import Overview
from ..monitor.verdict import Level, Verdict, verdict, with_level
from ..worker.served import parse_served
from .advice import with_advice
from .choosing import add_tables
from .colours import BOLD, CLEAR, GREEN, RED, YELLOW, is_coloured, is_screen, painted
from .commands._log import VISIBLE, printable
from .commands._text import status_json, status_text
from .durations import duration
from .looking import look_at, until_ctrl_c
from .verbs import FOUND, ProblemsFound, Verb

VERSION = 1  # of the JSON: names may be added; what changes or goes makes another one
WATCHED_SECONDS = 2.0
SECONDS_LEAST = 0.2
URGENT, NOT_URGENT, INDENT = "! ", "- ", "    "


def add_arguments(parser: ArgumentParser) -> None:
    add_tables(parser)
    parser.add_argument(
        "--watch",
        nargs="?",
        type=duration,
        const=WATCHED_SECONDS,
        metavar="SECONDS",
        help=_("again and again until Ctrl-C; default: every 2 s"),
    )


def run(options: dict[str, Any]) -> str:
    """``ProblemsFound`` where an alarm is urgent, or a database cannot be asked."""
    if options["watch"] is not None:
        return watch(options)
    found, judged = look(options)
    text = shown_as(options, found, judged)
    problems = [one.text for one in judged.problems if one.is_urgent]
    if judged.level is not Level.ACT:
        return text
    said = with_advice("\n".join(problems), options["database"]) if found.problems else ""
    raise ProblemsFound(text, printable(said or "\n".join(problems)), FOUND)


def look(options: dict[str, Any]) -> tuple[Overview, Verdict]:
    """At the queues that are meant, and whether all is well with them."""
    tables = parse_served(options["tables"], options["database"])
    found, failed = look_at(tables)
    return found, verdict(found, failed)


def watch(options: dict[str, Any]) -> str:
    """A screen after the other, until Ctrl-C or until nobody reads on; where there is no terminal,
    one below the other."""
    seconds = max(SECONDS_LEAST, options["watch"])
    with suppress(BrokenPipeError), until_ctrl_c() as ctrl_c:
        show(options)
        while not ctrl_c.has_come:
            ctrl_c.wait(seconds)
            show(options)
    return ""


def show(options: dict[str, Any]) -> None:
    try:
        text = shown_as(options, *look(options))
    except Error as error:
        text = URGENT + _("It cannot be asked: %(why)s") % {"why": first_line(error)}
    shown = printable(text)
    if is_coloured(sys.stdout, options):
        shown = coloured(shown)
    is_cleared = is_screen(sys.stdout) and not options["json"]
    sys.stdout.write((CLEAR if is_cleared else "") + shown + "\n")
    sys.stdout.flush()


def shown_as(options: dict[str, Any], found: Overview, judged: Verdict) -> str:
    return as_json(found, judged) if options["json"] else as_text(found, judged)


def as_text(found: Overview, judged: Verdict) -> str:
    """The first problem stands in the sentence. Each is one line, whatever a person has written as
    the reason of a pause."""
    lines = [judged.sentence]
    for number, one in enumerate([*judged.problems, *judged.pauses]):
        if number or not judged.problems:
            lines.append((URGENT if one.is_urgent else NOT_URGENT) + one.text)
        lines.append(INDENT + one.advice)
    return "\n".join([*(line.translate(VISIBLE) for line in lines), "", status_text(found)])


def as_json(found: Overview, judged: Verdict) -> str:
    content = {
        "version": VERSION,
        "verdict": judged.sentence,
        "level": judged.level,
        "urgent": judged.level is Level.ACT,
        "alerts": [
            {"text": one.text, "advice": one.advice, "is_urgent": one.is_urgent, "kind": one.kind}
            for one in [*judged.problems, *judged.pauses]
        ],
    }
    return json.dumps(content | status_json(found), indent=2)


def colour_of(sentence: str) -> str:
    """Of a verdict."""
    if sentence.startswith((_beginning(Level.ACT), URGENT)):
        return RED
    return YELLOW if sentence.startswith(_beginning(Level.LOOK)) else GREEN


def _beginning(level: Level) -> str:
    """What a verdict of a level begins with, in the language that is active."""
    return with_level(level, "\0").partition("\0")[0]


def coloured(text: str) -> str:
    """What ``as_text`` says, for a person who looks."""
    first, *rest = text.split("\n")
    lines = [painted(first, BOLD, colour_of(first))]
    for line in rest:
        colour = {URGENT: RED, NOT_URGENT: YELLOW}.get(line[: len(URGENT)])
        is_head = line.startswith(_("queue table") + "  ")
        lines.append(painted(line, colour) if colour else painted(line, BOLD) if is_head else line)
    return "\n".join(lines)


STATUS = Verb(
    gettext_lazy("how it is, and what waits, runs and failed, queue by queue"), add_arguments, run
)
