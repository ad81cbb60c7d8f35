"""``manage.py dbqueue failures``: what failed, kind by kind; the same as the admin's page."""

import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from math import ceil
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from ..metrics.counts import UNKNOWN, Failed
from ..monitor.failures import DAY, FailureGroup, Failures, failures
from ..monitor.overview import in_words
from ..texts.wording import number
from ..worker.served import Served
from .choosing import (
    add_errors,
    add_queues,
    add_tables,
    name_of,
    refuse_patterns,
    refuse_two_queues,
    tables_of,
)
from .commands._log import printable
from .commands._text import aligned
from .durations import duration
from .verbs import ProblemsFound, Refused, Verb

VERSION = 1  # of the JSON: names may be added; what changes or goes makes another one
WORDS_CHARS = 80
HEAD = [
    gettext_lazy("failure"),
    gettext_lazy("table"),
    gettext_lazy("1 h"),
    gettext_lazy("24 h"),
    gettext_lazy("failed"),
    gettext_lazy("retrying"),
    gettext_lazy("last seen (UTC)"),
    pgettext_lazy("column of a list", "what"),
]


def add_arguments(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_queues(parser)
    add_errors(parser)
    since = _(
        "only what failed within 10m, 1h, 24h; default: that of a day, and what is still here"
    )
    parser.add_argument("--since", "--newer-than", type=duration, metavar="AGE", help=since)


def run(options: dict[str, Any]) -> str:
    """One line or object for each kind; ``ProblemsFound`` where a database cannot be asked."""
    tables = tables_of(options)
    refuse_patterns(tables, options["queue"])
    refuse_two_queues(tables, options["queue"])
    since = options["since"]
    if since is not None and since > DAY * 60:
        text = _("--since: at most 24h, for which failures are counted kind by kind")
        raise Refused(text)
    minutes = None if since is None else max(1, ceil(since / 60))
    found = failures(tables, options["queue"], minutes)
    found.groups = [one for one in found.groups if is_asked(one, options)]
    text = as_json(found) if options["json"] else as_text(found, tables)
    if found.problems:
        problems = [
            _("%(name)s cannot be asked: %(why)s") % {"name": in_words(name), "why": why}
            for name, why in found.problems.items()
        ]
        raise ProblemsFound(text, printable("\n".join(problems)))
    return text


def is_asked(one: FailureGroup, options: dict[str, Any]) -> bool:
    """By the class, and by the words as they are shown: what differs from job to job is in none."""
    error, failure = options["error"] or "", options["failure"]
    words = f"{one.failure.exception}: {one.failure.words}"
    return error.casefold() in words.casefold() and failure in {None, one.fingerprint}


def as_json(found: Failures) -> str:
    content = {
        "version": VERSION,
        "failures": [as_object(one) for one in found.groups],
        "more_kinds": found.more_kinds,
        "shown_at": {name: moment.isoformat() for name, moment in found.shown_at.items()},
        "problems": found.problems,
    }
    return json.dumps(content, indent=2)


def as_object(one: FailureGroup) -> dict[str, Any]:
    return {
        "failure": one.fingerprint,
        "table": one.served.label,
        "database": one.served.using,
        "exception": one.failure.exception,
        "place": one.failure.place,
        "message": one.failure.words,
        "hour": one.hour,
        "day": one.day,
        "half_hours": one.per_point,
        "first_seen": one.first_seen and one.first_seen.isoformat(),
        "last_seen": one.last_seen and one.last_seen.isoformat(),
        "queues": one.queues,
        "failed": one.here.buried,
        "retrying": one.here.retrying,
        "at_least": one.here.is_at_least,
    }


def as_text(found: Failures, tables: tuple[Served, ...]) -> str:
    if not found.groups:
        return _("no failures")
    text = aligned([list(map(str, HEAD)), *(line(one, tables) for one in found.groups)])
    others = _("%(table)s has jobs with other kinds of failures, too")
    more = [others % {"table": name} for name in found.more_kinds]
    return "\n".join([text, *more, *(until(found, using) for using in found.shown_at)])


def until(found: Failures, using: str) -> str:
    """By which those that were counted are told from what failed since."""
    text = _("Counted until %(moment)s: --until leaves out what failed later.")
    if len(found.shown_at) > 1:
        text = _("Counted on %(database)s until %(moment)s: --until leaves out what failed later.")
    return text % {"database": using, "moment": found.shown_at[using].isoformat()}


def line(one: FailureGroup, tables: tuple[Served, ...]) -> list[str]:
    counts = [number(one.hour), number(one.day), *here(one.here)]
    table = name_of(one.served, tables)
    return [one.fingerprint, table, *counts, in_utc(one.last_seen), what(one)]


def here(counted: Failed) -> list[str]:
    more = "+" * counted.is_at_least
    numbers = counted.buried, counted.retrying
    return ["?" if counted == UNKNOWN else f"{number(count)}{more}" for count in numbers]


def what(one: FailureGroup) -> str:
    """The class, the words and the place, as far as there is room."""
    if one.is_other:
        return _("of kinds beyond those that are told apart")
    name = one.failure.exception.rpartition(".")[2]
    words = f"{name}: {one.failure.words}" if one.failure.words else name
    words = words if len(words) <= WORDS_CHARS else words[: WORDS_CHARS - 1] + "…"
    if not one.failure.place:
        return words
    return _("%(error)s in %(place)s") % {"error": words, "place": one.failure.place}


def in_utc(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


FAILURES = Verb(gettext_lazy("what failed, kind by kind, and how often"), add_arguments, run)
