"""``manage.py dbqueue failures``: what failed, kind by kind; the same as the admin's page."""

import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from math import ceil
from typing import Any

from ..metrics.counts import UNKNOWN, Failed
from ..monitor.failures import DAY, FailureGroup, Failures, failures
from ..worker.served import Served, parse_served
from .choosing import add_tables, name_of, refuse_patterns
from .commands._log import printable
from .commands._text import aligned
from .durations import duration
from .verbs import ProblemsFound, Refused, Verb

VERSION = 1  # of the JSON: names may be added; what changes or goes makes another one
WORDS_CHARS = 80
HEAD = ["failure", "table", "1 h", "24 h", "failed", "retrying", "last seen (UTC)", "what"]


def add_arguments(parser: ArgumentParser) -> None:
    add_tables(parser)
    one = "only this one; may be given more than once"
    parser.add_argument("--queue", action="append", default=[], help=one)
    since = "only what failed within 10m, 1h, 24h; default: that of a day, and what is still here"
    parser.add_argument("--since", type=duration, metavar="AGE", help=since)


def run(options: dict[str, Any]) -> str:
    """One line or object for each kind; ``ProblemsFound`` where a database cannot be asked."""
    tables = parse_served(options["tables"], options["database"])
    refuse_patterns(tables, options["queue"])
    since = options["since"]
    if since is not None and since > DAY * 60:
        raise Refused("--since: at most 24h, for which failures are counted kind by kind")
    minutes = None if since is None else max(1, ceil(since / 60))
    found = failures(tables, options["queue"], minutes)
    text = as_json(found) if options["json"] else as_text(found, tables)
    if found.problems:
        problems = [f"{name} cannot be asked: {why}" for name, why in found.problems.items()]
        raise ProblemsFound(text, printable("\n".join(problems)))
    return text


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
        return "no failures"
    text = aligned([HEAD, *(line(one, tables) for one in found.groups)])
    more = [f"{name} has jobs with other kinds of failures, too" for name in found.more_kinds]
    return "\n".join([text, *more])


def line(one: FailureGroup, tables: tuple[Served, ...]) -> list[str]:
    counts = [f"{one.hour:,}", f"{one.day:,}", *here(one.here)]
    table = name_of(one.served, tables)
    return [one.fingerprint, table, *counts, in_utc(one.last_seen), what(one)]


def here(counted: Failed) -> list[str]:
    more = "+" * counted.is_at_least
    numbers = counted.buried, counted.retrying
    return ["?" if counted == UNKNOWN else f"{number:,}{more}" for number in numbers]


def what(one: FailureGroup) -> str:
    """The class, the words and the place, as far as there is room."""
    if one.is_other:
        return "of kinds beyond those that are told apart"
    name = one.failure.exception.rpartition(".")[2]
    words = f"{name}: {one.failure.words}" if one.failure.words else name
    words = words if len(words) <= WORDS_CHARS else words[: WORDS_CHARS - 1] + "…"
    return f"{words} in {one.failure.place}" if one.failure.place else words


def in_utc(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


FAILURES = Verb("what failed, kind by kind, and how often", add_arguments, run)
