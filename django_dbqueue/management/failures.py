"""``manage.py dbqueue failures``: what failed, kind by kind; the same as the admin's page."""

import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from ..metrics.counts import Failed
from ..monitor.failures import DAY, FailureGroup, Failures, failures
from ..worker.served import Served, parse_served
from .choosing import add_errors, add_queues, add_tables, name_of, refuse_patterns
from .commands._log import printable
from .commands._text import aligned
from .durations import duration
from .verbs import ProblemsFound, Refused, Verb

VERSION = 1  # of the JSON: names may be added; what changes or goes makes another one
WORDS_CHARS = 80
HEAD = ["failure", "table", "1 h", "24 h", "failed", "retrying", "last seen (UTC)", "what"]


def add_arguments(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_queues(parser)
    add_errors(parser)
    since = "only what failed within 10m, 1h, 24h; default: that of a day, and what is still here"
    parser.add_argument("--since", "--newer-than", type=duration, metavar="AGE", help=since)


def run(options: dict[str, Any]) -> str:
    """One line or object for each kind; ``ProblemsFound`` where a database cannot be asked."""
    tables = parse_served(options["tables"], options["database"])
    refuse_patterns(tables, options["queue"])
    since = options["since"]
    if since is not None and since > DAY * 60:
        raise Refused("--since: at most 24h, for which failures are counted kind by kind")
    minutes = None if since is None else max(1, round(since / 60))
    found = failures(tables, options["queue"], minutes)
    found.groups = [one for one in found.groups if is_asked(one, options)]
    text = as_json(found) if options["json"] else as_text(found, tables)
    if found.problems:
        problems = [f"{name} cannot be asked: {why}" for name, why in found.problems.items()]
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
    return "\n".join([text, *(until(found, using) for using in found.shown_at)])


def until(found: Failures, using: str) -> str:
    """By which those that were counted are told from what failed since."""
    place = f" on {using}" if len(found.shown_at) > 1 else ""
    moment = found.shown_at[using].isoformat()
    return f"Counted{place} until {moment}: --until leaves out what failed later."


def line(one: FailureGroup, tables: tuple[Served, ...]) -> list[str]:
    counts = [f"{one.hour:,}", f"{one.day:,}", *here(one.here)]
    table = name_of(one.served, tables)
    return [one.fingerprint, table, *counts, in_utc(one.last_seen), what(one)]


def here(counted: Failed) -> list[str]:
    more = "+" * counted.is_at_least
    return [f"{number:,}{more}" for number in (counted.buried, counted.retrying)]


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
