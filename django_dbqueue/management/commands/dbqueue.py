"""Looks after queues from the command line."""

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.management.base import BaseCommand, CommandError, no_translations
from django.db.utils import Error

from ...adopt.adoptable import CannotAdopt
from ...adopt.migration import plan
from ...demo_data import TooMany, fill, remove
from ...diagnose import UnknownJob, explain
from ...diagnose.check import check_integrity
from ...exceptions import first_line
from ...lifecycle.table import table_of
from ...monitor.worker_list import (
    UnknownWorker,
    list_workers,
    request_drain,
    request_resume,
    request_stop,
)
from ...worker.served import UnknownTable, parse_one
from ..advice import with_advice
from ..colours import is_coloured
from ..operating import OPERATING
from ..reporting import VERSION
from ..status import coloured
from ..verbs import VERBS, ProblemsFound, Refused
from ._log import printable
from ._text import asked_text, check_text, workers_text
from ._types import alias

# A queue app: the core knows it by its name only.
TORTURE = "django_dbqueue.torture."
CHECK_ROWS_MAX = 10_000
# By verb, how its text is coloured for people.
PAINTED: dict[str, Callable[[str], str]] = {"status": coloured}
ASKS = {"stop": request_stop, "drain": request_drain, "resume": request_resume}


class Command(BaseCommand):
    help = "Look after queues: workers [--stop NAME], check, explain TABLE ID, "
    "adopt APP.MODEL, demo-data, torture" + "".join(f", {name}" for name in [*OPERATING, *VERBS])
    # They would hide the advice of `adopt`, and hinder people who have to stop a worker.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        workers = verbs.add_parser("workers", help="who works on what, and how long they live")
        ask = workers.add_mutually_exclusive_group()
        ask.add_argument(
            "--stop", metavar="NAME", help="ask to stop: a uuid or its beginning, host:pid, or host"
        )
        ask.add_argument("--drain", metavar="NAME", help="ask to claim nothing more, and live on")
        ask.add_argument("--resume", metavar="NAME", help="ask to claim again after --drain")
        check = verbs.add_parser("check", help="look for rows that should not be; reads only")
        check.add_argument(
            "--rows",
            type=number_of_rows,
            default=20,
            help="most rows shown of a kind, 20 by default",
        )
        for verb in (workers, check):
            verb.add_argument("--json", action="store_true", help="for programs")
            verb.add_argument("--database", type=alias, help="only this database alias")
        explain = verbs.add_parser("explain", help="why a job is not running, in words")
        explain.add_argument("table", metavar="TABLE")
        explain.add_argument("id", metavar="ID")
        explain.add_argument("--json", action="store_true", help="for programs")
        explain.add_argument("--database", type=alias, help="only this database alias")
        adopt = verbs.add_parser("adopt", help="make a queue table of a table, its rows done")
        adopt.add_argument("model", metavar="APP.MODEL")
        adopt.add_argument("--name", help="of the migration; default: adopt_MODEL")
        adopt.add_argument("--dry-run", action="store_true", help="print the migration only")
        demo = verbs.add_parser("demo-data", help="example jobs for the admin, in paused queues")
        demo.add_argument("tables", nargs="*", metavar="TABLE", help="default: all")
        demo.add_argument("--jobs", type=int, default=200, help="in each queue table; default: 200")
        demo.add_argument("--remove", action="store_true", help="delete them again")
        demo.add_argument("--database", type=alias, help="only this database alias")
        torture = verbs.add_parser("torture", help="kill workers on a scratch database, and judge")
        import_module(TORTURE + "options").add_arguments(torture, alias)
        for name, added in (OPERATING | VERBS).items():
            added.add_arguments(verbs.add_parser(name, help=added.help))

    @no_translations  # what it prints is English, also where it shares sentences with the admin
    def handle(self, *args: Any, **options: Any) -> None:
        verbs: dict[str, Callable[..., str]] = {
            "workers": workers,
            "check": check,
            "explain": explain_job,
            "adopt": adopt,
            "demo-data": demo_data,
            "torture": torture,
            **{word: verb.run for word, verb in OPERATING.items()},
        }
        try:
            run: Callable[[dict[str, Any]], str] = verbs.get(options["verb"], of_an_app)
            self._show(run(options), options)
        except (ProblemsFound, Refused) as found:
            if isinstance(found, ProblemsFound):
                self._show(found.text, options)
            if options.get("traceback") or not self._called_from_command_line:  # type: ignore[attr-defined]
                raise
            # Django would put the class's name before what an operator is told.
            self.stderr.write(str(found))
            sys.exit(found.returncode)
        except (CannotAdopt, UnknownWorker, UnknownTable, UnknownJob, TooMany) as error:
            raise CommandError(printable(str(error))) from error
        except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
            raise CommandError(
                printable(with_advice(first_line(error), options.get("database")))
            ) from error

    def _show(self, text: str, options: dict[str, Any]) -> None:
        shown = printable(text)
        paint = PAINTED.get(options["verb"])
        if paint is not None and is_coloured(self.stdout, options):
            shown = paint(shown)
        self.stdout.write(shown)


def number_of_rows(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= CHECK_ROWS_MAX:
        raise ArgumentTypeError(f"{text!r} is no number between 1 and {CHECK_ROWS_MAX}")
    return int(text)


def workers(options: dict[str, Any]) -> str:
    asked = next((verb for verb in ASKS if options[verb] is not None), None)
    using = options["database"]
    members = list_workers(using) if asked is None else ASKS[asked](options[asked], using)
    if options["json"]:
        return as_json({"workers": [asdict(member) for member in members]})
    return workers_text(members) if asked is None else asked_text(members, asked)


def check(options: dict[str, Any]) -> str:
    """One line where all is well, else ``ProblemsFound``."""
    examined = check_integrity(options["database"], options["rows"])
    text = as_json(asdict(examined)) if options["json"] else check_text(examined)
    if examined.is_clean:
        return text
    count = f"{len(examined.findings)}{'+' if examined.more else ''} findings"
    missing = len(examined.unchecked)
    left_out = f"; {missing} could not be checked" if missing else ""
    raise ProblemsFound(text, f"{count} in {examined.tables} queue tables{left_out}")


def explain_job(options: dict[str, Any]) -> str:
    served = parse_one(options["table"], options["database"])
    found = explain(table_of(served.model, served.using), options["id"])
    if options["json"]:
        return as_json(asdict(found))
    return "\n".join([f"{served.label} {options['id']}: {found.state}", *found.sentences])


def adopt(options: dict[str, Any]) -> str:
    adoption = plan(options["model"], options["name"])
    if options["dry_run"]:
        return adoption.text()
    path, here = adoption.write(), Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return "\n".join([str(shown), *adoption.summary()])


def demo_data(options: dict[str, Any]) -> str:
    tables, using = options["tables"], options["database"]
    if options["remove"]:
        return "\n".join(f"removed from {one}" for one in remove(tables, using))
    return "\n".join(map(str, fill(options["jobs"], tables, using)))


def of_an_app(options: dict[str, Any]) -> str:
    try:
        return VERBS[options["verb"]].run(options)
    except ValidationError as error:
        raise CommandError(printable(" ".join(error.messages))) from error
    except ValueError as error:
        raise CommandError(printable(str(error))) from error


def torture(options: dict[str, Any]) -> str:
    if code := import_module(TORTURE + "command").torture(options):
        sys.exit(code)
    return ""


def as_json(content: dict[str, Any]) -> str:
    return json.dumps({"version": VERSION, **content}, indent=2)
