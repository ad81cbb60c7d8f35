"""``manage.py dbqueue restart``: workers stop, to be started again with new code."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .asking import ask, shown_with
from .commands._text import asked_text
from .commands._types import alias
from .reporting import VERSION
from .verbs import Verb


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "workers",
        nargs="*",
        metavar="NAME",
        help=_("a uuid or its beginning, host:pid, or host; default: all that live"),
    )
    parser.add_argument("--json", action="store_true", help=_("for programs"))
    parser.add_argument("--database", type=alias, help=_("only this database alias"))


def run(options: dict[str, Any]) -> str:
    """``ProblemsFound`` where some of the databases cannot be asked."""
    using = options["database"]
    asked, problems = ask("restart", options["workers"], using)
    if options["json"]:
        told = {"version": VERSION, "workers": [asdict(one) for one in asked]}
        text = json.dumps(told, indent=2)
    else:
        text = asked_text(asked, "restart") or _("no worker lives")
    return shown_with(text, problems, using)


RESTART = Verb(
    gettext_lazy("ask workers to stop, and to be started again with new code"), add_arguments, run
)
