"""The options that say which jobs are meant, and how that is reported."""

from argparse import ArgumentParser
from collections.abc import Collection
from typing import Any

from django.utils.translation import gettext as _

from ..conf.queue_order import is_pattern
from ..fields import check_name
from ..operate.choice import Choice
from ..states import Status
from ..worker.served import Served, parse_served
from .commands._text import on
from .commands._types import alias, positive, some
from .durations import duration
from .values import moment
from .verbs import Refused

STATES = {status.label: status for status in Status} | {"failed": Status.BURIED}


def add_tables(parser: ArgumentParser) -> None:
    place = "TABLE[@DATABASE][:QUEUE]"
    parser.add_argument("tables", nargs="*", metavar=place, help=_("default: every queue table"))
    parser.add_argument("--database", type=alias, help=_("only this database alias"))
    parser.add_argument("--json", action="store_true", help=_("for programs"))


def add_filters(parser: ArgumentParser, states: Collection[Status] = ()) -> None:
    add = parser.add_argument
    add_queues(parser)
    if len(states) > 1:
        names = [name for name, status in STATES.items() if status in states]
        state = _("only jobs in this state")
        add("--state", action="append", default=[], choices=names, help=state)
    since = _("10m, 24h, 7d: since they ended, or else were enqueued")
    add("--older-than", type=duration, metavar="AGE", help=since)
    add("--newer-than", type=duration, metavar="AGE", help=_("the same"))
    until = _("only what ended, or else was enqueued, by then: as `dbqueue failures` says it")
    add("--until", type=moment, metavar="TIME", help=until)
    add_errors(parser)
    add("--limit", type=positive, help=_("most jobs in all"))


def add_queues(parser: ArgumentParser) -> None:
    one = _("only this one; may be given more than once")
    parser.add_argument("--queue", action="append", default=[], help=one)


def add_errors(parser: ArgumentParser) -> None:
    add = parser.add_argument
    # Left empty by a script it would mean all jobs.
    error = _("a part of the newest error, capitals aside")
    add("--error", type=some, metavar="TEXT", help=error)
    failure = _("as `dbqueue failures` shows them")
    add("--failure", type=some, metavar="FINGERPRINT", help=failure)


def tables_of(options: dict[str, Any]) -> tuple[Served, ...]:
    """Each of them once."""
    return without_twins(parse_served(options["tables"], options["database"]))


def without_twins(tables: Collection[Served]) -> tuple[Served, ...]:
    """A queue of a table that is named as a whole is in it already."""
    whole = {one.place for one in tables if not one.queue}
    return tuple(dict.fromkeys(one for one in tables if not one.queue or one.place not in whole))


def refuse_patterns(tables: Collection[Served], queues: Collection[str]) -> None:
    """Queues are named whole here; ``ValidationError`` where one can be no name."""
    for queue in [*queues, *[one.queue for one in tables if one.queue]]:
        check_name(queue, "queue")
        if is_pattern(queue):
            text = _("%(name)s is a pattern: name the queues, or the whole table")
            raise Refused(text % {"name": repr(queue)})


def refuse_two_queues(tables: Collection[Served], queues: Collection[str]) -> None:
    """``TABLE:QUEUE`` and ``--queue`` at once, where one of them would not be heeded."""
    if queues and (twice := [one for one in tables if one.queue]):
        text = _("%(name)s names its queue: give no --queue with it")
        raise Refused(text % {"name": twice[0]})


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
        text = _("%(verb)s which jobs? Name a table, or give a filter, or --all.")
        raise Refused(text % {"verb": word})
    if choice.ids and choice != Choice(ids=choice.ids):
        raise Refused(_("%(verb)s --id goes with no other filter.") % {"verb": word})
    tables = tables_of(options)
    refuse_patterns(tables, choice.queues)
    if choice.ids and (len(tables) != 1 or not options["tables"]):
        text = _("%(verb)s --id: name the one table in which these ids are.")
        if options["tables"]:
            text = _(
                "%(verb)s --id: name the one table in which these ids are, TABLE@DATABASE where it "
                "is on several."
            )
        raise Refused(text % {"verb": word})
    return tables


def name_of(served: Served, tables: Collection[Served]) -> str:
    """With its database, where there are several."""
    several = len({one.using for one in tables}) > 1
    return on(str(served), served.using) if several else str(served)
