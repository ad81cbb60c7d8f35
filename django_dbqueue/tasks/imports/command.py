"""``manage.py dbqueue import``."""

from argparse import ArgumentParser
from typing import Any

from django.db import router

from ...management.verbs import Verb

KINDS = ("django-tasks-db", "dj-queue")


def add_arguments(parser: ArgumentParser) -> None:
    from ...management.commands._types import alias  # noqa: PLC0415  # only for commands

    parser.add_argument("--from", dest="source", choices=KINDS, required=True)
    parser.add_argument("--dry-run", action="store_true", help="say what would be moved")
    parser.add_argument("--database", type=alias, help="that has both tables")


def run(options: dict[str, Any]) -> str:
    # They make models of tables that only this verb looks at.
    from ..models import Task  # noqa: PLC0415
    from .sources import SOURCES  # noqa: PLC0415
    from .take_over import take_over  # noqa: PLC0415

    using = options["database"] or router.db_for_write(Task)
    report = take_over(SOURCES[options["source"]], using, dry_run=options["dry_run"])
    return "\n".join(lines(report, options["dry_run"]))


def lines(report: Any, dry_run: bool) -> list[str]:
    name = report.source.name
    verb = "would be moved" if dry_run else "were moved"
    said = [f"{report.moved} tasks {verb} from {name}, {report.due_later} of them due later"]
    for state, words in report.source.left.items():
        if count := report.left.get(state):
            said.append(f"left there: {count} {words}")
    odd = sorted(report.left.keys() - report.source.left.keys())
    said += [f"left there: {report.left[state]} in the unknown state {state!r}" for state in odd]
    if report.taken:
        said.append(f"left there: {report.taken} that a worker of {name} was about to take")
    if report.refused_count:
        said.append(f"left there: {report.refused_count} that cannot be taken over")
    said += [f"  {key}: {reason}" for key, reason in report.refused]
    if more := report.refused_count - len(report.refused):
        said.append(f"  and {more} more")
    return said + [f"note: {note}" for note in report.notes]


IMPORT = Verb("take over what waits in another backend's tables", add_arguments, run)
