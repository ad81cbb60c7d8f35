"""``manage.py dbqueue import``."""

from argparse import ArgumentParser
from typing import Any

from django.db import router
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ...exceptions import QueueFull
from ...management.verbs import Verb

KINDS = ("django-tasks-db", "dj-queue")


def add_arguments(parser: ArgumentParser) -> None:
    from ...management.commands._types import alias  # noqa: PLC0415  # only for commands

    parser.add_argument("--from", dest="source", choices=KINDS, required=True)
    parser.add_argument("--dry-run", action="store_true", help=_("say what would be moved"))
    parser.add_argument("--database", type=alias, help=_("that has both tables"))


def run(options: dict[str, Any]) -> str:
    # They make models of tables that only this verb looks at.
    from ..models import Task  # noqa: PLC0415
    from .sources import SOURCES  # noqa: PLC0415
    from .take_over import take_over  # noqa: PLC0415

    using = options["database"] or router.db_for_write(Task)
    try:
        report = take_over(SOURCES[options["source"]], using, dry_run=options["dry_run"])
    except QueueFull as full:
        raise ValueError(str(full)) from full
    return "\n".join(lines(report, options["dry_run"]))


def lines(report: Any, dry_run: bool) -> list[str]:
    name = report.source.name
    said = [_moved(report, dry_run)]
    for state, text in report.source.left.items():
        if count := report.left.get(state):
            said.append(text % {"number": count})
    odd = sorted(report.left.keys() - report.source.left.keys())
    text = _("left there: %(number)s in the unknown state %(state)s")
    said += [text % {"number": report.left[one], "state": repr(one)} for one in odd]
    if report.taken:
        text = _("left there: %(number)s that a worker of %(name)s was about to take")
        said.append(text % {"number": report.taken, "name": name})
    if report.refused_count:
        text = _("left there: %(number)s that cannot be taken over")
        said.append(text % {"number": report.refused_count})
    said += [f"  {key}: {reason}" for key, reason in report.refused]
    if more := report.refused_count - len(report.refused):
        text = _("and %(number)s more") % {"number": more}
        said.append(f"  {text}")
    return said + [_("note: %(note)s") % {"note": note} for note in report.notes]


def _moved(report: Any, dry_run: bool) -> str:
    count = report.moved
    text = ngettext(
        "%(number)s tasks were moved from %(from)s, %(later)s of them due later",
        "%(number)s tasks were moved from %(from)s, %(later)s of them due later",
        count,
    )
    if dry_run:
        text = ngettext(
            "%(number)s tasks would be moved from %(from)s, %(later)s of them due later",
            "%(number)s tasks would be moved from %(from)s, %(later)s of them due later",
            count,
        )
    return text % {"number": count, "from": report.source.name, "later": report.due_later}


IMPORT = Verb(gettext_lazy("take over what waits in another backend's tables"), add_arguments, run)
