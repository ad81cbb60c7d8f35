"""Looks after queues from the command line."""

import json
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db.utils import Error
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, override

from ...adopt.adoptable import CannotAdopt
from ...adopt.migration import plan
from ...demo_data import TooMany, fill, remove
from ...diagnose import UnknownJob, explain
from ...diagnose.check import check_integrity
from ...exceptions import first_line
from ...lifecycle.table import table_of
from ...monitor.worker_list import ListedWorker, list_known
from ...monitor.worker_requests import UnknownWorker
from ...texts.wording import said, state_word
from ...worker.served import UnknownTable, parse_one
from ..advice import with_advice
from ..asking import ask, shown_with
from ..colours import is_coloured
from ..operating import OPERATING
from ..reporting import INTERRUPTED, VERSION
from ..status import coloured
from ..verbs import VERBS, ProblemsFound, Refused
from ._django import take_djangos
from ._log import printable
from ._text import asked_text, check_text, workers_text
from ._types import alias

# A queue app: the core knows it by its name only.
TORTURE = "django_dbqueue.torture."
CHECK_ROWS_MAX = 10_000
OWN = "workers [--stop NAME], check, explain TABLE ID, adopt APP.MODEL, demo-data, torture"
# By verb, how its text is coloured for people.
PAINTED: dict[str, Callable[[str], str]] = {"status": coloured}
ASKS = ("stop", "drain", "resume")


class Command(BaseCommand):
    # They would hide the advice of `adopt`, and hinder people who have to stop a worker.
    requires_system_checks = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = (
            "workers [--stop NAME], check, explain TABLE ID, adopt APP.MODEL, demo-data, torture"
        )
        verbs = ", ".join([known, *OPERATING, *VERBS])
        self.help = _("Look after queues: %(verbs)s") % {"verbs": verbs}

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        looks = [
            verbs.add_parser("workers", help=_("who works on what, and how long they live")),
            verbs.add_parser("check", help=_("look for rows that should not be; reads only")),
            verbs.add_parser("explain", help=_("why a job is not running, in words")),
        ]
        for add_own, verb in zip((add_workers, add_check, add_explain), looks, strict=True):
            add_own(verb)
            verb.add_argument("--json", action="store_true", help=_("for programs"))
            verb.add_argument("--database", type=alias, help=_("only this database alias"))
        adopts = _("make a queue table of a table, its rows done")
        add_adopt(verbs.add_parser("adopt", help=adopts))
        examples = _("example jobs for the admin, in paused queues")
        add_demo_data(verbs.add_parser("demo-data", help=examples))
        kills = _("kill workers on a scratch database, and judge")
        import_module(TORTURE + "options").add_arguments(
            verbs.add_parser("torture", help=kills), alias
        )
        for name, added in (OPERATING | VERBS).items():
            added.add_arguments(verbs.add_parser(name, help=str(added.help)))
        take_djangos(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        # What is for programs is English, and so is what is for those who work on us.
        is_english = options.get("json") or options["verb"] == "torture"
        with override(None) if is_english else nullcontext():
            self._run(options)

    def _run(self, options: dict[str, Any]) -> None:
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
        except ProblemsFound as found:
            self._show(found.text, options)
            self._end(found, options)
        except Refused as refused:
            self._end(refused, options)
        except KeyboardInterrupt:  # before anything was done, as at a question
            if not self._called_from_command_line:  # type: ignore[attr-defined]
                raise
            why = _("interrupted: the rest is as it was")
            self._end(Refused(why, INTERRUPTED), options)
        except (CannotAdopt, UnknownWorker, UnknownTable, UnknownJob, TooMany) as error:
            self._end(Refused(printable(said(error))), options)
        except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
            raise CommandError(
                printable(with_advice(first_line(error), options.get("database")))
            ) from error

    def _end(self, why: ProblemsFound | Refused, options: dict[str, Any]) -> None:
        if options.get("traceback") or not self._called_from_command_line:  # type: ignore[attr-defined]
            raise why
        # Django would put the class's name before what an operator is told.
        self.stderr.write(str(why))
        sys.exit(why.returncode)

    def _show(self, text: str, options: dict[str, Any]) -> None:
        shown = printable(text)
        paint = PAINTED.get(options["verb"])
        if paint is not None and is_coloured(self.stdout, options):
            shown = paint(shown)
        try:
            self.stdout.write(shown)
            self.stdout.flush()
        except BrokenPipeError:
            if not self._called_from_command_line:  # type: ignore[attr-defined]
                raise
            # Who read has had enough, as `head` has; what was to be done is done.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def add_workers(parser: ArgumentParser) -> None:
    ask = parser.add_mutually_exclusive_group()
    stop = _("ask to stop: a uuid or its beginning, host:pid, or host")
    ask.add_argument("--stop", metavar="NAME", help=stop)
    drain = _("ask to claim nothing more, and live on")
    ask.add_argument("--drain", metavar="NAME", help=drain)
    ask.add_argument("--resume", metavar="NAME", help=_("ask to claim again after --drain"))


def add_check(parser: ArgumentParser) -> None:
    most = _("most rows shown of a kind, 20 by default")
    parser.add_argument("--rows", type=number_of_rows, default=20, help=most)


def add_explain(parser: ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE")
    parser.add_argument("id", metavar="ID")


def add_adopt(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="APP.MODEL")
    parser.add_argument("--name", help=_("of the migration; default: adopt_MODEL"))
    parser.add_argument("--dry-run", action="store_true", help=_("print the migration only"))


def add_demo_data(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help=_("default: all"))
    add("--jobs", type=int, default=200, help=_("in each queue table; default: 200"))
    add("--remove", action="store_true", help=_("delete them again"))
    add("--database", type=alias, help=_("only this database alias"))


def number_of_rows(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= CHECK_ROWS_MAX:
        why = _("%(given)s is no number between 1 and %(most)s")
        raise ArgumentTypeError(why % {"given": repr(text), "most": CHECK_ROWS_MAX})
    return int(text)


def workers(options: dict[str, Any]) -> str:
    """``ProblemsFound`` where some of the databases cannot be asked."""
    asked = next((verb for verb in ASKS if options[verb] is not None), None)
    using = options["database"]
    members, problems = ask(asked, [options[asked]], using) if asked else list_known(using)
    if options["json"]:
        text = workers_json(members)
    else:
        text = asked_text(members, asked) if asked else workers_text(members)
    return shown_with(text, problems, using)


def workers_json(members: list[ListedWorker]) -> str:
    return as_json({"workers": [asdict(member) for member in members]})


def check(options: dict[str, Any]) -> str:
    """One line where all is well, else ``ProblemsFound``."""
    examined = check_integrity(options["database"], options["rows"])
    text = as_json(asdict(examined)) if options["json"] else check_text(examined)
    if examined.is_clean:
        return text
    found, missing = len(examined.findings), len(examined.unchecked)
    summary = ngettext(
        "%(number)s findings in %(tables)s queue tables",
        "%(number)s findings in %(tables)s queue tables",
        found,
    )
    more = "+" if examined.more else ""
    summary %= {"number": f"{found}{more}", "tables": examined.tables}
    if missing:
        rest = ngettext(
            "%(number)s could not be checked", "%(number)s could not be checked", missing
        )
        summary += f"; {rest % {'number': missing}}"
    raise ProblemsFound(text, summary)


def explain_job(options: dict[str, Any]) -> str:
    served = parse_one(options["table"], options["database"])
    found = explain(table_of(served.model, served.using), options["id"])
    if options["json"]:
        return as_json(asdict(found))
    state = state_word(found.state)
    return "\n".join([f"{served.label} {options['id']}: {state}", *found.sentences])


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
        text = _("removed from %(what)s")
        removed = remove(tables, using)
        return "\n".join(str(one) if one.why_not else text % {"what": one} for one in removed)
    return "\n".join(map(str, fill(options["jobs"], tables, using)))


def of_an_app(options: dict[str, Any]) -> str:
    try:
        return VERBS[options["verb"]].run(options)
    except ValidationError as error:
        raise Refused(printable(" ".join(error.messages))) from error
    except ValueError as error:
        raise Refused(printable(said(error))) from error


def torture(options: dict[str, Any]) -> str:
    if code := import_module(TORTURE + "command").torture(options):
        sys.exit(code)
    return ""


def as_json(content: dict[str, Any]) -> str:
    return json.dumps({"version": VERSION, **content}, indent=2)
