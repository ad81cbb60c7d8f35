"""``manage.py dbqueue retry``, ``kick``, ``move``, ``prioritize``, ``reschedule``, ``bury``,
``release``, ``cancel`` and ``clear``: what the admin's actions do, by the same code, to as many
jobs as there are."""

from argparse import ArgumentParser
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..operate.acting import (
    BURY,
    CANCEL,
    KICK,
    MOVE,
    PRIORITIZE,
    RELEASE,
    RESCHEDULE,
    Progress,
)
from ..operate.acting import Verb as JobVerb
from ..operate.choice import Choice, keys_of
from ..operate.moments import Beginning, beginning_of
from ..operate.recording import KEYS_NAMED_MAX
from ..states import Status
from ..texts import wording
from ..worker.served import Served
from .choosing import add_filters, add_tables, choice_of, name_of, named_tables
from .confirming import add_confirmation, confirm
from .recording import add_user, recorded, user_of
from .reporting import Report
from .values import add_values, check_values, with_values
from .verbs import Verb

WAITING = (Status.READY, Status.DELAYED)


@dataclass(frozen=True)
class Act:
    """A word of the command line: a verb, and the states that it is about where none are given."""

    word: str
    verb: JobVerb
    states: Collection[Status]
    asks: bool = True


HELP = {
    "retry": gettext_lazy("put failed (buried) jobs back to work"),
    "kick": gettext_lazy("put buried and delayed jobs back to work"),
    "move": gettext_lazy("put jobs into another queue"),
    "prioritize": gettext_lazy("give jobs another priority"),
    "reschedule": gettext_lazy("have waiting jobs run at another time"),
    "bury": gettext_lazy("park jobs for a person"),
    "release": gettext_lazy("take claimed jobs away from their workers"),
    "cancel": gettext_lazy("take jobs out for good, into the archive if any"),
    "clear": gettext_lazy("cancel all jobs of a queue that wait"),
}
ACTS = [
    Act("retry", KICK, (Status.BURIED,), asks=False),
    Act("kick", KICK, KICK.sources, asks=False),
    Act("move", MOVE, MOVE.sources),
    Act("prioritize", PRIORITIZE, PRIORITIZE.sources),
    Act("reschedule", RESCHEDULE, RESCHEDULE.sources),
    Act("bury", BURY, BURY.sources),
    Act("release", RELEASE, RELEASE.sources),
    Act("cancel", CANCEL, CANCEL.sources),
    Act("clear", CANCEL, WAITING),
]


def add_arguments(act: Act, parser: ArgumentParser) -> None:
    add_tables(parser)
    add_filters(parser, act.states)
    add_values(act.verb, parser)
    add_user(parser)
    parser.add_argument("--all", action="store_true", help=_("where neither table nor filter is"))
    parser.add_argument("--dry-run", action="store_true", help=_("count only, and change nothing"))
    if act.word == "clear":
        claimed = "--include-claimed"
        parser.add_argument(claimed, action="store_true", help=_("also those that workers have"))
    else:
        parser.add_argument(
            "--id",
            nargs="+",
            action="extend",
            default=[],
            metavar="ID",
            help=_("these of one table: 5 7 20-29"),
        )
    if act.asks:
        add_confirmation(parser)


def run(act: Act, options: dict[str, Any]) -> str:
    """The text, or JSON; ``ProblemsFound`` where some of the given ids were not changed."""
    check_values(act.verb, options)
    choice, states, user = choice_of(options), set(act.states), user_of(options)
    if options.get("include_claimed"):
        states.add(Status.CLAIMED)
    tables = named_tables(options, choice)
    # All of them are looked at before anything is done.
    asked = sum(1 for _ in keys_of(tables[0].model._meta.pk, choice.ids)) if choice.ids else 0
    asked_at: dict[str, Beginning] = {}
    if act.asks and not options["dry_run"]:
        if not options["yes"]:
            asked_at = {one.using: beginning_of(one.using) for one in tables}
        confirm(options, act.verb.says, counted(tables, choice, states, options["limit"]))
    report = Report(act.word, options)
    with report.told_at_the_end(), recorded(report, user):
        do(act.verb, tables, choice, states, report, asked_at)
        report.problem = missed(report, asked)
    return report.shown()


def do(
    verb: JobVerb,
    tables: Sequence[Served],
    choice: Choice,
    states: Collection[Status],
    report: Report,
    asked: Mapping[str, Beginning],
) -> None:
    """``asked``: when somebody was asked, by database."""
    began = dict(asked)
    for served in tables:
        # What came while somebody thought it over was not counted.
        until = asked[served.using].at if served.using in asked else None
        meant = replace(choice, until=choice.until or until)
        progress = Progress(
            with_values(verb, served, report.options),
            limit=report.left,
            keeps=KEYS_NAMED_MAX,
            matches=meant.matches if meant.error else None,
            is_dry=report.is_dry,
        )
        report.done.append((name_of(served, tables), served, progress))
        if served.using not in began:
            began[served.using] = beginning_of(served.using)
        progress.since = None if meant.ids else began[served.using]
        for keyset in meant.keysets(served, states, once=report.is_dry):
            progress.do(keyset)


def counted(
    tables: Sequence[Served],
    choice: Choice,
    states: Collection[Status],
    limit: int | None = None,
) -> Iterator[str]:
    """How many jobs are meant, at most 1,000 of a state; whatever their errors are, of which none
    knows how many the limit lets through."""
    left = None if choice.error else limit
    for served in tables:
        counts = [keyset.count() for keyset in choice.keysets(served, states)]
        number, more = sum(one.number for one in counts), any(one.is_at_least for one in counts)
        if left is not None:
            number, more = min(number, left), more and number < left
            left -= number
        if number or more:
            text = ngettext("%(table)s: %(number)s jobs", "%(table)s: %(number)s jobs", number)
            if choice.error:
                text = ngettext(
                    "%(table)s: %(number)s jobs, of which those with %(text)s in their error",
                    "%(table)s: %(number)s jobs, of which those with %(text)s in their error",
                    number,
                )
            shown = f"{wording.number(number)}{'+' * more}"
            values = {"table": name_of(served, tables), "text": repr(choice.error)}
            yield text % {**values, "number": shown}


def missed(report: Report, asked: int) -> str:
    """How many of the ids that were asked for were not changed, in words."""
    wanted = min(asked, report.limit or asked)
    if report.is_dry or report.changed >= wanted:
        return ""
    text = ngettext(
        "%(changed)s of %(number)s jobs: the others are gone, or in another state",
        "%(changed)s of %(number)s jobs: the others are gone, or in another state",
        wanted,
    )
    return text % {"changed": report.changed, "number": wanted}


VERBS = {
    act.word: Verb(HELP[act.word], partial(add_arguments, act), partial(run, act)) for act in ACTS
}
