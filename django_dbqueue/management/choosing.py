"""The options that say which jobs are meant, and how that is reported."""

from argparse import ArgumentParser
from collections.abc import Collection
from typing import Any

from ..conf.queue_order import is_pattern
from ..fields import check_name
from ..operate.choice import Choice
from ..states import Status
from ..worker.served import Served, parse_served
from .commands._types import alias, positive, some
from .durations import duration
from .values import moment
from .verbs import Refused

STATES = {status.label: status for status in Status} | {"failed": Status.BURIED}


def add_tables(parser: ArgumentParser) -> None:
    place = "TABLE[@DATABASE][:QUEUE]"
    parser.add_argument("tables", nargs="*", metavar=place, help="default: every queue table")
    parser.add_argument("--database", type=alias, help="only this database alias")
    parser.add_argument("--json", action="store_true", help="for programs")


def add_filters(parser: ArgumentParser, states: Collection[Status] = ()) -> None:
    add = parser.add_argument
    add_queues(parser)
    if len(states) > 1:
        names = [name for name, status in STATES.items() if status in states]
        add("--state", action="append", default=[], choices=names, help="only jobs in this state")
    since = "10m, 24h, 7d: since they ended, or else were enqueued"
    add("--older-than", type=duration, metavar="AGE", help=since)
    add("--newer-than", type=duration, metavar="AGE", help="the same")
    until = "only what ended, or else was enqueued, by then: as `dbqueue failures` says it"
    add("--until", type=moment, metavar="TIME", help=until)
    add_errors(parser)
    add("--limit", type=positive, help="most jobs in all")


def add_queues(parser: ArgumentParser) -> None:
    one = "only this one; may be given more than once"
    parser.add_argument("--queue", action="append", default=[], help=one)


def add_errors(parser: ArgumentParser) -> None:
    add = parser.add_argument
    # Left empty by a script it would mean all jobs.
    add("--error", type=some, metavar="TEXT", help="a part of the newest error, capitals aside")
    add("--failure", type=some, metavar="FINGERPRINT", help="as `dbqueue failures` shows them")


def refuse_patterns(tables: Collection[Served], queues: Collection[str]) -> None:
    """Queues are named whole here; ``ValidationError`` where one can be no name."""
    for queue in [*queues, *[one.queue for one in tables if one.queue]]:
        check_name(queue, "queue")
        if is_pattern(queue):
            raise Refused(f"{queue!r} is a pattern: name the queues, or the whole table")


def choice_of(options: dict[str, Any]) -> Choice:
    return Choice(
        states=frozenset(STATES[name] for name in options.get("state", [])),
        queues=tuple(options["queue"]),
        older_than=options["older_than"],
        newer_than=options["newer_than"],
        until=options["until"],
        error=options["error"] or "",
        failure=options["failure"] or "",
        ids=tuple(dict.fromkeys(options.get("id", []))),
    )


def named_tables(options: dict[str, Any], choice: Choice) -> tuple[Served, ...]:
    """All of them only where that was said, or something else was asked of the jobs."""
    word = options["verb"]
    if not (options["tables"] or options["all"] or not choice.is_empty):
        raise Refused(f"{word} which jobs? Name a table, or give a filter, or --all.")
    if choice.ids and choice != Choice(ids=choice.ids):
        raise Refused(f"{word} --id goes with no other filter.")
    tables = parse_served(options["tables"], options["database"])
    refuse_patterns(tables, choice.queues)
    if choice.ids and (len(tables) != 1 or not options["tables"]):
        several = ", TABLE@DATABASE where it is on several" if options["tables"] else ""
        raise Refused(f"{word} --id: name the one table in which these ids are{several}.")
    return tables


def name_of(served: Served, tables: Collection[Served]) -> str:
    """With its database, where there are several."""
    several = len({one.using for one in tables}) > 1
    return f"{served} on {served.using}" if several else str(served)
