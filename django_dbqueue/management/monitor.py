"""``manage.py dbqueue monitor``: exit code 1 where a queue is too long, or too late."""

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..conf import conf
from ..monitor.overview import in_words
from ..monitor.thresholds import Thresholds, Watched, watch
from ..texts import wording
from .choosing import add_tables, tables_of
from .commands._log import printable
from .commands._text import aligned
from .commands._types import positive
from .durations import duration
from .reporting import VERSION
from .verbs import ProblemsFound, Verb

MAX_WAITING = 1_000


def add_arguments(parser: ArgumentParser) -> None:
    add_tables(parser)
    many = _("alert at so many waiting jobs; default: %(number)s")
    many %= {"number": wording.number(MAX_WAITING)}
    parser.add_argument("--max", type=positive, default=MAX_WAITING, metavar="JOBS", help=many)
    late = _("alert where a job waits for longer; default: late_after of its queue, or LATE_AFTER")
    parser.add_argument("--max-age", type=duration, metavar="TIME", help=late)


def run(options: dict[str, Any]) -> str:
    """One line or object for each queue; ``ProblemsFound`` where one is over a limit, or where a
    database cannot be asked."""
    limits = Thresholds(options["max"], options["max_age"])
    tables = tables_of(options)
    found, titles = watch(tables, limits), {(one.label, one.using): one.title for one in tables}
    text = as_json(found, limits) if options["json"] else as_text(found, titles)
    problems = [
        f"{titles[one.table, one.database]}:{one.queue}: {', '.join(one.why)}" for one in found.over
    ]
    problems += [
        _("%(name)s cannot be asked: %(why)s") % {"name": in_words(name), "why": why}
        for name, why in found.problems.items()
    ]
    if problems:
        raise ProblemsFound(text, printable("\n".join(problems)))
    return text


def as_json(found: Watched, limits: Thresholds) -> str:
    content = {
        "version": VERSION,
        "alert": bool(found.over or found.problems),
        "max": limits.waiting,
        "max_age": conf["LATE_AFTER"] if limits.age is None else limits.age,
        "queues": [asdict(one) for one in found.queues],
        "problems": found.problems,
    }
    return json.dumps(content, indent=2)


def as_text(found: Watched, titles: Mapping[tuple[str, str], str]) -> str:
    states = [wording.state_word(name) for name in ("delayed", "claimed")]
    head = [_("queue table"), _("queue"), _("waiting"), _("oldest"), *states, _("workers")]
    head += [_("alert")]
    lines = [
        [
            titles[one.table, one.database],
            _("%(queue)s (paused)") % {"queue": one.queue} if one.paused else one.queue,
            wording.number(one.waiting),
            "" if one.oldest_seconds is None else wording.duration(one.oldest_seconds),
            str(one.count("delayed")),
            str(one.count("claimed")),
            str(one.workers),
            ", ".join(one.why),
        ]
        for one in found.queues
    ]
    return aligned([head, *lines]) if lines else _("no queues")


MONITOR = Verb(
    gettext_lazy("exit with 1 where a queue is too long, or waits too long"), add_arguments, run
)
